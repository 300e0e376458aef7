/* Initialisation, devices and contexts. One device; each thread has its own stack of contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

enum { CUDA_VERSION = 13000, STACK_DEPTH = 64 };

typedef struct Context {
    unsigned flags;
    bool destroyed;
} Context;

static bool initialised;
static Context primary = {.destroyed = true};
static __thread Context *stack[STACK_DEPTH];
static __thread int stacked;

static Context *current(void) { return stacked ? stack[stacked - 1] : NULL; }

Result need_initialised(void) { return initialised ? SUCCESS : NOT_INITIALIZED; }

Result need_context(void) {
    if (!initialised) return NOT_INITIALIZED;
    if (!current()) return INVALID_CONTEXT;
    if (current()->destroyed) return CONTEXT_IS_DESTROYED;
    return sticky_error;
}

/* Contexts on the calling thread's stack. */
API int emuContextDepth(void) { return stacked; }

static Result push(Context *context) {
    if (stacked == STACK_DEPTH) return INVALID_CONTEXT;
    stack[stacked++] = context;
    counters.context_pushes++;
    return SUCCESS;
}

/* ---- initialisation and devices --------------------------------------------------------------------- */

API Result cuInit(unsigned flags) {
    ENTER("cuInit");
    if (flags) return INVALID_VALUE;
    if (!personality.present) return NO_DEVICE;
    initialised = true;
    return SUCCESS;
}

API Result cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return SUCCESS;
}

API Result cuDeviceGetCount(int *count) {
    ENTER_INITIALISED("cuDeviceGetCount");
    *count = personality.present ? 1 : 0;
    return SUCCESS;
}

API Result cuDeviceGet(Device *device, int ordinal) {
    ENTER_INITIALISED("cuDeviceGet");
    if (ordinal || !personality.present) return INVALID_DEVICE;
    *device = 0;
    return SUCCESS;
}

API Result cuDeviceGetName(char *name, int length, Device device) {
    ENTER_INITIALISED("cuDeviceGetName");
    if (device) return INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", personality.name);
    return SUCCESS;
}

API Result cuDeviceGetUuid_v2(char *uuid, Device device) {
    if (device) return INVALID_DEVICE;
    memset(uuid, 0xE0, 16);
    return SUCCESS;
}

API Result cuDeviceTotalMem_v2(size_t *nbytes, Device device) {
    ENTER_INITIALISED("cuDeviceTotalMem");
    if (device) return INVALID_DEVICE;
    *nbytes = personality.total_bytes;
    return SUCCESS;
}

API Result cuDeviceComputeCapability(int *major, int *minor, Device device) {
    ENTER_INITIALISED("cuDeviceComputeCapability");
    if (device) return INVALID_DEVICE;
    *major = personality.major;
    *minor = personality.minor;
    return SUCCESS;
}

API Result cuDeviceGetPCIBusId(char *text, int length, Device device) {
    if (device) return INVALID_DEVICE;
    snprintf(text, (size_t)length, "0000:00:00.0");
    return SUCCESS;
}

API Result cuDeviceGetByPCIBusId(Device *device, const char *text) {
    (void)text;
    *device = 0;
    return SUCCESS;
}

/* Source: cuda.h, enum CUdevice_attribute. What is not here is 0, as for a feature that is absent. */
API Result cuDeviceGetAttribute(int *value, int attribute, Device device) {
    ENTER_INITIALISED("cuDeviceGetAttribute");
    if (device) return INVALID_DEVICE;
    bool integrated = personality.integrated;
    switch (attribute) {
    case 1: *value = 1024; break;                  /* MAX_THREADS_PER_BLOCK */
    case 10: *value = 32; break;                   /* WARP_SIZE */
    case 16: *value = integrated ? 8 : 60; break;  /* MULTIPROCESSOR_COUNT */
    case 18: *value = integrated; break;           /* INTEGRATED */
    case 19: *value = 1; break;                    /* CAN_MAP_HOST_MEMORY */
    case 31: *value = 1; break;                    /* CONCURRENT_KERNELS */
    case 40: *value = integrated ? 1 : 2; break;   /* ASYNC_ENGINE_COUNT */
    case 41: *value = 1; break;                    /* UNIFIED_ADDRESSING */
    case 75: *value = personality.major; break;    /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = personality.minor; break;    /* COMPUTE_CAPABILITY_MINOR */
    case 83: *value = 1; break;                    /* MANAGED_MEMORY */
    case 89: *value = !integrated; break;          /* CONCURRENT_MANAGED_ACCESS */
    default: *value = 0;
    }
    return SUCCESS;
}

/* ---- the primary context ---------------------------------------------------------------------------- */

API Result cuDevicePrimaryCtxRetain(void **context, Device device) {
    ENTER_INITIALISED("cuDevicePrimaryCtxRetain");
    if (device) return INVALID_DEVICE;
    lock();
    counters.live_primary_references++;
    primary.destroyed = false;
    *context = &primary;
    unlock();
    return SUCCESS;
}

/* The last release destroys what was left in the context. It does not pop it from any stack. */
API Result cuDevicePrimaryCtxRelease_v2(Device device) {
    ENTER_INITIALISED("cuDevicePrimaryCtxRelease");
    if (device) return INVALID_DEVICE;
    lock();
    Result answer = SUCCESS;
    if (!counters.live_primary_references) {
        answer = INVALID_CONTEXT;
    } else if (--counters.live_primary_references == 0) {
        drain_all();
        counters.leaked_by_release += free_all_graphs() + free_all_streams() + free_all_memory();
        primary.destroyed = true;
        sticky_error = SUCCESS;
    }
    unlock();
    return answer;
}

API Result cuDevicePrimaryCtxGetState(Device device, unsigned *flags, int *active) {
    if (device) return INVALID_DEVICE;
    *flags = primary.flags;
    *active = !primary.destroyed;
    return SUCCESS;
}

API Result cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
    if (device) return INVALID_DEVICE;
    primary.flags = flags;
    return SUCCESS;
}

/* ---- other contexts, as a program of the user may make them ----------------------------------------- */

static Result create(void **context, unsigned flags, Device device) {
    ENTER_INITIALISED("cuCtxCreate");
    if (device) return INVALID_DEVICE;
    Context *made = calloc(1, sizeof *made);
    made->flags = flags;
    *context = made;
    return push(made);
}

API Result cuCtxCreate_v2(void **context, unsigned flags, Device device) { return create(context, flags, device); }
API Result cuCtxCreate_v4(void **context, void *params, unsigned flags, Device device) {
    (void)params;
    return create(context, flags, device);
}

API Result cuCtxDestroy_v2(void *handle) {
    ENTER_INITIALISED("cuCtxDestroy");
    Context *context = handle;
    if (!context || context == &primary) return INVALID_CONTEXT;
    if (current() == context) {
        stacked--;
        counters.context_pops++;
    }
    context->destroyed = true; /* kept: it may lie on another thread's stack */
    return SUCCESS;
}

API Result cuCtxDetach(void *context) { return cuCtxDestroy_v2(context); }

API Result cuCtxAttach(void **context, unsigned flags) {
    (void)flags;
    ENTER_CONTEXT("cuCtxAttach");
    *context = current();
    return SUCCESS;
}

/* ---- the calling thread's stack --------------------------------------------------------------------- */

API Result cuCtxPushCurrent_v2(void *context) {
    ENTER_INITIALISED("cuCtxPushCurrent");
    if (!context) return INVALID_CONTEXT;
    lock();
    Result answer = push(context);
    unlock();
    return answer;
}

API Result cuCtxPopCurrent_v2(void **context) {
    ENTER_INITIALISED("cuCtxPopCurrent");
    if (!stacked) return INVALID_CONTEXT;
    lock();
    counters.context_pops++;
    unlock();
    Context *popped = stack[--stacked];
    if (context) *context = popped;
    return SUCCESS;
}

API Result cuCtxSetCurrent(void *context) {
    ENTER_INITIALISED("cuCtxSetCurrent");
    if (stacked) stacked--;
    if (context) stack[stacked++] = context;
    return SUCCESS;
}

API Result cuCtxGetCurrent(void **context) {
    ENTER_INITIALISED("cuCtxGetCurrent");
    *context = current();
    return SUCCESS;
}

API Result cuCtxGetDevice(Device *device) {
    ENTER_CONTEXT("cuCtxGetDevice");
    *device = 0;
    return SUCCESS;
}

API Result cuCtxGetApiVersion(void *context, unsigned *version) {
    (void)context;
    *version = CUDA_VERSION;
    return SUCCESS;
}

API Result cuCtxSynchronize(void) {
    ENTER_CONTEXT("cuCtxSynchronize");
    lock();
    Result answer = refuse_waiting_during_capture();
    if (!answer) {
        counters.synchronisations++;
        drain_all();
        answer = sticky_error;
    }
    unlock();
    return answer;
}

API Result cuProfilerStart(void) { return SUCCESS; }
API Result cuProfilerStop(void) { return SUCCESS; }
