/* CUDA graphs. A capture takes what a stream is given instead of running it; a launch gives it back, with the
 * addresses that it was captured with. */
#include <stdlib.h>

#include "emulator.h"

static Graph *all_graphs;

static Graph *new_graph(bool executable) {
    Graph *graph = calloc(1, sizeof *graph);
    graph->executable = executable;
    graph->next = all_graphs;
    all_graphs = graph;
    counters.live_graphs++;
    return graph;
}

static Graph *find_graph(void *handle, bool executable) {
    for (Graph *graph = all_graphs; graph; graph = graph->next)
        if (graph == handle && graph->executable == executable && !graph->destroyed) return graph;
    return NULL;
}

static void free_graph(Graph *graph) {
    for (Graph **place = &all_graphs; *place; place = &(*place)->next) {
        if (*place == graph) {
            *place = graph->next;
            break;
        }
    }
    while (graph->first) {
        Operation *next = graph->first->next;
        free(graph->first);
        graph->first = next;
    }
    free(graph);
}

static void destroy_graph(Graph *graph) {
    graph->destroyed = true;
    counters.live_graphs--;
    release_graph(graph);
}

/* Frees a destroyed graph once no launch of it waits any more. */
void release_graph(Graph *graph) {
    if (graph->destroyed && !graph->users) free_graph(graph);
}

size_t free_all_graphs(void) {
    size_t count = 0;
    while (all_graphs) {
        if (!all_graphs->destroyed) {
            counters.live_graphs--;
            count++;
        }
        free_graph(all_graphs);
    }
    for (Stream *stream = all_streams; stream; stream = stream->next) stream->capture = NULL;
    return count;
}

/* ---- what a capture forbids ------------------------------------------------------------------------- */

/* Source: CUDA driver API, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode: calls that may be
 * unsafe are refused to every thread by a GLOBAL capture, to its own thread by a THREAD_LOCAL one. */
Result refuse_during_capture(void) {
    Result answer = SUCCESS;
    for (Stream *stream = all_streams; stream; stream = stream->next) {
        if (!stream->capture || stream->capture_mode == CAPTURE_RELAXED) continue;
        if (stream->capture_mode == CAPTURE_THREAD_LOCAL && !pthread_equal(stream->capture_thread, pthread_self()))
            continue;
        stream->capture_invalid = true;
        answer = CAPTURE_UNSUPPORTED;
    }
    return answer;
}

/* Waiting for everything, or using the default stream: with blocking streams under capture it is refused
 * to all, otherwise as above. */
Result refuse_waiting_during_capture(void) {
    for (Stream *stream = all_streams; stream; stream = stream->next) {
        if (stream->capture && !(stream->flags & NON_BLOCKING)) {
            stream->capture_invalid = true;
            return CAPTURE_IMPLICIT;
        }
    }
    return refuse_during_capture();
}

/* ---- capture ---------------------------------------------------------------------------------------- */

API Result cuStreamBeginCapture_v2(void *handle, int mode) {
    ENTER_CONTEXT("cuStreamBeginCapture");
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED) return INVALID_VALUE;
    lock();
    Stream *stream = find_stream(handle);
    Result answer = SUCCESS;
    if (!stream) {
        answer = INVALID_HANDLE;
    } else if (stream == &default_stream) {
        answer = CAPTURE_UNSUPPORTED;
    } else if (stream->capture) {
        answer = INVALID_VALUE;
    } else {
        stream->capture = new_graph(false);
        stream->capture_origin = true;
        stream->capture_invalid = false;
        stream->capture_mode = mode;
        stream->capture_thread = pthread_self();
        stream->captured = stream->joined = 0;
    }
    unlock();
    return answer;
}

static Result end(Stream *stream, Graph **out) {
    if (!stream->capture) return INVALID_VALUE;
    if (!stream->capture_origin) return CAPTURE_UNMATCHED;
    if (stream->capture_mode != CAPTURE_RELAXED && !pthread_equal(stream->capture_thread, pthread_self()))
        return CAPTURE_WRONG_THREAD;
    Graph *graph = stream->capture;
    bool invalid = false, unjoined = false;
    for (Stream *member = all_streams; member; member = member->next) {
        if (member->capture != graph) continue;
        invalid |= member->capture_invalid;
        unjoined |= !member->capture_origin && member->joined < member->captured;
        member->capture = NULL;
        member->capture_invalid = false;
    }
    if (invalid || unjoined) {
        destroy_graph(graph);
        return invalid ? CAPTURE_INVALIDATED : CAPTURE_UNJOINED;
    }
    *out = graph;
    return SUCCESS;
}

API Result cuStreamEndCapture(void *handle, void **graph) {
    ENTER_CONTEXT("cuStreamEndCapture");
    lock();
    Stream *stream = find_stream(handle);
    Graph *captured = NULL;
    Result answer = stream ? end(stream, &captured) : INVALID_HANDLE;
    *graph = captured;
    unlock();
    return answer;
}

API Result cuStreamIsCapturing(void *handle, int *status) {
    ENTER_CONTEXT("cuStreamIsCapturing");
    lock();
    Stream *stream = find_stream(handle);
    if (stream) *status = !stream->capture ? 0 : stream->capture_invalid ? 2 : 1; /* NONE, ACTIVE, INVALIDATED */
    unlock();
    return stream ? SUCCESS : INVALID_HANDLE;
}

/* ---- graphs ----------------------------------------------------------------------------------------- */

API Result cuGraphGetNodes(void *handle, void **nodes, size_t *count) {
    ENTER_CONTEXT("cuGraphGetNodes");
    if (nodes) return NOT_SUPPORTED;
    lock();
    Graph *graph = find_graph(handle, false);
    if (graph) *count = graph->count;
    unlock();
    return graph ? SUCCESS : INVALID_VALUE;
}

API Result cuGraphDestroy(void *handle) {
    ENTER_CONTEXT("cuGraphDestroy");
    lock();
    Graph *graph = find_graph(handle, false);
    if (graph) destroy_graph(graph);
    unlock();
    return graph ? SUCCESS : INVALID_VALUE;
}

API Result cuGraphInstantiateWithFlags(void **handle, void *template, unsigned long long flags) {
    ENTER_CONTEXT("cuGraphInstantiate");
    if (flags) return NOT_SUPPORTED;
    lock();
    Graph *from = find_graph(template, false);
    Result answer = from ? SUCCESS : INVALID_VALUE;
    if (from) {
        Graph *graph = new_graph(true);
        for (Operation *node = from->first; node; node = node->next) {
            Operation *copied = malloc(sizeof *copied);
            *copied = *node;
            copied->next = NULL;
            if (graph->last) graph->last->next = copied;
            else graph->first = copied;
            graph->last = copied;
            graph->count++;
        }
        counters.graph_instantiations++;
        *handle = graph;
    }
    unlock();
    return answer;
}

API Result cuGraphLaunch(void *handle, void *stream_handle) {
    ENTER_CONTEXT("cuGraphLaunch");
    lock();
    Graph *graph = find_graph(handle, true);
    Stream *stream = find_stream(stream_handle);
    Result answer = !graph ? INVALID_VALUE : !stream ? INVALID_HANDLE : SUCCESS;
    if (!answer && stream->capture) answer = NOT_SUPPORTED; /* graphs within graphs */
    if (!answer) {
        counters.graph_launches++;
        for (Operation *node = graph->first; node; node = node->next) {
            size_t nbytes = node->row_bytes * node->rows;
            if (node->kind != COPY) continue;
            if (node->to_host) counters.device_to_host_bytes += nbytes;
            else if (node->from_host) counters.host_to_device_bytes += nbytes;
            else counters.device_to_device_bytes += nbytes;
        }
        graph->users++;
        answer = enqueue(stream, (Operation){.kind = GRAPH, .graph = graph});
    }
    unlock();
    return answer;
}

API Result cuGraphUpload(void *handle, void *stream) {
    ENTER_CONTEXT("cuGraphUpload");
    return find_graph(handle, true) && find_stream(stream) ? SUCCESS : INVALID_VALUE;
}

API Result cuGraphExecDestroy(void *handle) {
    ENTER_CONTEXT("cuGraphExecDestroy");
    lock();
    Graph *graph = find_graph(handle, true);
    if (graph) destroy_graph(graph);
    unlock();
    return graph ? SUCCESS : INVALID_VALUE;
}
