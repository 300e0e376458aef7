/* Streams and events. Work waits in its stream's queue. Synchronising runs the queue; each query runs one
 * operation. Time on the emulated GPU: every operation takes one microsecond, so that events can be checked
 * and nobody can take them for a measurement. */
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

Stream default_stream, *all_streams = &default_stream;
int sticky_error;
static Event *all_events;
static uint64_t device_time_us;

Stream *find_stream(void *handle) {
    if ((uintptr_t)handle <= 2) return &default_stream; /* NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
    for (Stream *stream = all_streams; stream; stream = stream->next)
        if (stream == handle) return stream;
    return NULL;
}

Event *find_event(void *handle) {
    for (Event *event = all_events; event; event = event->next)
        if (event == handle) return event;
    return NULL;
}

/* ---- the queue -------------------------------------------------------------------------------------- */

Result enqueue(Stream *stream, Operation operation) {
    Operation *added = malloc(sizeof *added);
    *added = operation;
    added->next = NULL;
    if (stream->capture) {
        Graph *graph = stream->capture;
        if (graph->last) graph->last->next = added;
        else graph->first = added;
        graph->last = added;
        graph->count++;
        stream->captured++;
        return SUCCESS;
    }
    if (stream->last) stream->last->next = added;
    else stream->first = added;
    stream->last = added;
    if (counters.waiting_operations++ == 0) protect_managed(true);
    return SUCCESS;
}

static void call_host_function(const Operation *operation) {
    counters.host_functions++;
    int depth = unlock_fully(); /* it may need Python's own lock, which a waiting thread may hold */
    inside_host_function = true;
    operation->function(operation->argument);
    inside_host_function = false;
    lock_again(depth);
}

/* Runs the first operation of a stream. Returns whether there was one. */
static bool step(Stream *stream) {
    while (stream->running) wait_for_change();
    Operation *operation = stream->first;
    if (!operation) return false;
    stream->first = operation->next;
    if (!stream->first) stream->last = NULL;
    stream->running = true;
    Result failure = run_operation(stream, operation);
    stream->running = false;
    if (failure && !sticky_error) sticky_error = failure;
    if (operation->kind == GRAPH) {
        operation->graph->users--;
        release_graph(operation->graph);
    }
    free(operation);
    if (--counters.waiting_operations == 0) protect_managed(false);
    reap_freed_regions();
    tell_change();
    return true;
}

void drain(Stream *stream) {
    while (step(stream)) {
    }
}

void drain_all(void) {
    for (Stream *stream = all_streams; stream; stream = stream->next) {
        /* What another thread is running is that thread's to finish: it may wait for a lock that we hold. */
        while (!stream->running && step(stream)) {
        }
    }
}

void drain_blocking(void) {
    for (Stream *stream = all_streams; stream; stream = stream->next)
        if (!(stream->flags & NON_BLOCKING)) drain(stream);
}

static void run_until(Event *event, uint64_t recording) {
    while (event->done < recording && event->stream && step(event->stream)) {
    }
}

Result copy_now(const Operation *operation);
Result fill_now(const Operation *operation);

Result run_operation(Stream *stream, Operation *operation) {
    counters.operations_run++;
    device_time_us++;
    Result answer = SUCCESS;
    switch (operation->kind) {
    case COPY: return copy_now(operation);
    case FILL: return fill_now(operation);
    case HOST_FUNCTION: call_host_function(operation); break;
    case RECORD:
        if (find_event(operation->event) && operation->recording > operation->event->done) {
            operation->event->done = operation->recording;
            operation->event->time_us = device_time_us;
        }
        break;
    case WAIT:
        if (find_event(operation->event) && operation->event->stream != stream)
            run_until(operation->event, operation->recording);
        break;
    case GRAPH:
        for (Operation *node = operation->graph->first; node; node = node->next) {
            Result failure = run_operation(stream, node);
            if (failure) answer = failure;
        }
    }
    return answer;
}

/* ---- streams ---------------------------------------------------------------------------------------- */

API Result cuStreamCreate(void **handle, unsigned flags) {
    ENTER_CONTEXT("cuStreamCreate");
    if (flags & ~(unsigned)NON_BLOCKING) return INVALID_VALUE;
    lock();
    Stream *stream = calloc(1, sizeof *stream);
    stream->flags = flags;
    stream->next = all_streams->next; /* the default stream stays first */
    all_streams->next = stream;
    counters.live_streams++;
    *handle = stream;
    unlock();
    return SUCCESS;
}

API Result cuStreamCreateWithPriority(void **handle, unsigned flags, int priority) {
    (void)priority;
    return cuStreamCreate(handle, flags);
}

static void remove_stream(Stream *stream) {
    for (Stream **place = &all_streams; *place; place = &(*place)->next) {
        if (*place == stream) {
            *place = stream->next;
            break;
        }
    }
    for (Event *event = all_events; event; event = event->next)
        if (event->stream == stream) event->stream = NULL;
    counters.live_streams--;
    free(stream);
}

API Result cuStreamDestroy_v2(void *handle) {
    ENTER_CONTEXT("cuStreamDestroy");
    lock();
    Stream *stream = find_stream(handle);
    Result answer = SUCCESS;
    if (!stream || stream == &default_stream) {
        answer = INVALID_HANDLE;
    } else {
        drain(stream);
        remove_stream(stream);
    }
    unlock();
    return answer;
}

size_t free_all_streams(void) {
    size_t count = 0;
    for (; default_stream.next; count++) remove_stream(default_stream.next);
    for (; all_events; count++) {
        Event *next = all_events->next;
        free(all_events);
        all_events = next;
        counters.live_events--;
    }
    return count;
}

/* Waiting for a stream that is captured, or asking after it, spoils the capture. */
static Result refuse_captured(Stream *stream) {
    if (!stream) return INVALID_HANDLE;
    if (stream == &default_stream) return refuse_waiting_during_capture();
    if (!stream->capture) return SUCCESS;
    stream->capture_invalid = true;
    return CAPTURE_UNSUPPORTED;
}

API Result cuStreamSynchronize(void *handle) {
    ENTER_CONTEXT("cuStreamSynchronize");
    lock();
    Stream *stream = find_stream(handle);
    Result answer = refuse_captured(stream);
    if (!answer) {
        counters.synchronisations++;
        if (stream == &default_stream) drain_blocking();
        else drain(stream);
        answer = sticky_error;
    }
    unlock();
    return answer;
}

API Result cuStreamQuery(void *handle) {
    ENTER_CONTEXT("cuStreamQuery");
    lock();
    Stream *stream = find_stream(handle);
    Result answer = refuse_captured(stream);
    if (!answer) {
        counters.queries++;
        if (!stream->running) step(stream);
        answer = sticky_error ? sticky_error : stream->first || stream->running ? NOT_READY : SUCCESS;
    }
    unlock();
    return answer;
}

API Result cuStreamGetFlags(void *handle, unsigned *flags) {
    ENTER_CONTEXT("cuStreamGetFlags");
    Stream *stream = find_stream(handle);
    if (!stream) return INVALID_HANDLE;
    *flags = stream->flags;
    return SUCCESS;
}

API Result cuLaunchHostFunc(void *handle, void (*function)(void *), void *argument) {
    ENTER_CONTEXT("cuLaunchHostFunc");
    if (!function) return INVALID_VALUE;
    lock();
    Stream *stream = find_stream(handle);
    Operation operation = {.kind = HOST_FUNCTION, .function = function, .argument = argument};
    Result answer = stream ? enqueue(stream, operation) : INVALID_HANDLE;
    unlock();
    return answer;
}

/* ---- events ----------------------------------------------------------------------------------------- */

API Result cuEventCreate(void **handle, unsigned flags) {
    ENTER_CONTEXT("cuEventCreate");
    lock();
    Event *event = calloc(1, sizeof *event);
    event->flags = flags;
    event->next = all_events;
    all_events = event;
    counters.live_events++;
    *handle = event;
    unlock();
    return SUCCESS;
}

API Result cuEventDestroy_v2(void *handle) {
    ENTER_CONTEXT("cuEventDestroy");
    lock();
    Result answer = INVALID_HANDLE;
    for (Event **place = &all_events; *place; place = &(*place)->next) {
        if (*place != handle) continue;
        Event *event = *place;
        run_until(event, event->recorded); /* the driver keeps it until it has passed; waits lie behind it */
        *place = event->next;
        free(event);
        counters.live_events--;
        answer = SUCCESS;
        break;
    }
    unlock();
    return answer;
}

API Result cuEventRecord(void *handle, void *stream_handle) {
    ENTER_CONTEXT("cuEventRecord");
    lock();
    Event *event = find_event(handle);
    Stream *stream = find_stream(stream_handle);
    Result answer = event && stream ? SUCCESS : INVALID_HANDLE;
    if (!answer) {
        event->stream = stream;
        event->capture = stream->capture;
        event->capture_position = stream->captured;
        if (!stream->capture) {
            event->recorded++;
            answer = enqueue(stream, (Operation){.kind = RECORD, .event = event, .recording = event->recorded});
        }
    }
    unlock();
    return answer;
}

API Result cuEventQuery(void *handle) {
    ENTER_CONTEXT("cuEventQuery");
    lock();
    Event *event = find_event(handle);
    Result answer = !event ? INVALID_HANDLE : event->capture ? CAPTURED_EVENT : SUCCESS;
    if (!answer) {
        counters.queries++;
        if (event->done < event->recorded && event->stream && !event->stream->running) step(event->stream);
        answer = sticky_error ? sticky_error : event->done < event->recorded ? NOT_READY : SUCCESS;
    }
    unlock();
    return answer;
}

API Result cuEventSynchronize(void *handle) {
    ENTER_CONTEXT("cuEventSynchronize");
    lock();
    Event *event = find_event(handle);
    Result answer = !event ? INVALID_HANDLE : event->capture ? CAPTURED_EVENT : SUCCESS;
    if (!answer) {
        counters.synchronisations++;
        run_until(event, event->recorded);
        answer = sticky_error;
    }
    unlock();
    return answer;
}

API Result cuEventElapsedTime_v2(float *milliseconds, void *first, void *second) {
    ENTER_CONTEXT("cuEventElapsedTime");
    lock();
    Event *from = find_event(first), *to = find_event(second);
    Result answer = SUCCESS;
    if (!from || !to || (from->flags | to->flags) & DISABLE_TIMING || !from->recorded || !to->recorded)
        answer = INVALID_HANDLE;
    else if (from->done < from->recorded || to->done < to->recorded)
        answer = NOT_READY;
    else
        *milliseconds = ((float)to->time_us - (float)from->time_us) / 1000.0f;
    unlock();
    return answer;
}

API Result cuEventElapsedTime(float *milliseconds, void *first, void *second) {
    return cuEventElapsedTime_v2(milliseconds, first, second);
}

API Result cuStreamWaitEvent(void *stream_handle, void *handle, unsigned flags) {
    (void)flags;
    ENTER_CONTEXT("cuStreamWaitEvent");
    lock();
    Stream *stream = find_stream(stream_handle);
    Event *event = find_event(handle);
    Result answer = stream && event ? SUCCESS : INVALID_HANDLE;
    if (!answer && event->capture) { /* the waiting stream joins the capture */
        if (!stream->capture) {
            stream->capture = event->capture;
            stream->capture_origin = stream->capture_invalid = false;
            stream->captured = stream->joined = 0;
            stream->capture_mode = event->stream->capture_mode;
            stream->capture_thread = event->stream->capture_thread;
        }
        if (event->stream && event->stream != stream && event->capture_position > event->stream->joined)
            event->stream->joined = event->capture_position;
    } else if (!answer && !stream->capture) {
        answer = enqueue(stream, (Operation){.kind = WAIT, .event = event, .recording = event->recorded});
    } else if (!answer && event->done < event->recorded) { /* a captured stream cannot wait for work outside */
        stream->capture_invalid = true;
        answer = CAPTURE_UNSUPPORTED;
    }
    unlock();
    return answer;
}
