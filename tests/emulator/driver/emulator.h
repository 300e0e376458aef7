/* A libcuda.so.1 that has no GPU: enough of the CUDA driver, in ordinary memory, for the real pycuda and
 * the real cuda-bindings to run on it. For tests only; nothing here measures anything.
 *
 *   errors.c    names of the error codes
 *   control.c   what tests ask and set: counters, personality, faults, access to emulated device memory
 *   context.c   initialisation, devices, contexts
 *   memory.c    allocations, each between guard pages; which address belongs to whom
 *   streams.c   streams, events, host functions: work waits in a queue until something waits for it
 *   copies.c    copies and fills
 *   graphs.c    capture, instantiation and replay
 *   lookup.c    cuGetProcAddress
 *   absent.c    the functions that pycuda links against and the emulator does not have
 *
 * It is stricter than a real driver where that shows a mistake: device memory cannot be touched by the
 * host (SIGSEGV), mapped memory has another address on the device than on the host, work runs only when
 * something waits for it or asks after it, so that data read too early is always old, and on an integrated
 * GPU the host cannot touch managed memory while work is waiting. It has no kernels and no CUDA runtime. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef int Result;               /* CUresult */
typedef int Device;               /* CUdevice */
typedef unsigned long long Pointer; /* CUdeviceptr */

/* Source: cuda.h, enum cudaError_enum. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

/* ---- counters: one list gives the fields and their names ------------------------------------------- */

#define COUNTERS(X)                                                                                     \
    X(device_allocations) X(device_frees) X(host_allocations) X(host_frees)                             \
    X(managed_allocations) X(managed_frees)                                                             \
    X(host_to_device_bytes) X(device_to_host_bytes) X(device_to_device_bytes) X(pageable_copies)        \
    X(synchronisations) X(queries) X(operations_run) X(host_functions)                                  \
    X(graph_instantiations) X(graph_launches)                                                           \
    X(context_pushes) X(context_pops) X(illegal_addresses) X(leaked_by_release)
/* What is alive now; these are not set back by emuResetCounters. */
#define LIVE(X)                                                                                         \
    X(live_device_bytes) X(live_host_bytes) X(live_allocations) X(live_streams) X(live_events)          \
    X(live_graphs) X(live_primary_references) X(waiting_operations)

typedef struct {
#define FIELD(name) uint64_t name;
    COUNTERS(FIELD)
    LIVE(FIELD)
#undef FIELD
} Counters;

typedef struct {
    const char *name;
    bool present, integrated;
    int major, minor;
    size_t total_bytes;
    size_t misalignment; /* added to each address, to show that it is noticed */
} Personality;

extern Counters counters;
extern Personality personality;

/* ---- memory ---------------------------------------------------------------------------------------- */

typedef enum { DEVICE_MEMORY, PINNED_MEMORY, MANAGED_MEMORY } Kind;

typedef struct Region {
    struct Region *next;
    Kind kind;
    unsigned flags;
    size_t nbytes;
    uintptr_t device; /* address on the device, 0 where it has none */
    uintptr_t host;   /* address on the host, 0 where it has none */
    char *backing;    /* where the emulator itself reads and writes */
    void *mapped[2];
    size_t mapped_bytes[2];
} Region;

Region *region_on_device(Pointer address, size_t nbytes);
Region *region_on_host(const void *address, size_t nbytes);
/* The emulator's own view of device memory, or NULL when it is not within one allocation. */
char *backing_of(Pointer address, size_t nbytes);
bool touches_device_only(const void *address, size_t nbytes);
void protect_managed(bool protect);
void reap_freed_regions(void);
size_t free_all_memory(void);

/* ---- streams, events, graphs ----------------------------------------------------------------------- */

typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Graph Graph;
typedef enum { COPY, FILL, RECORD, WAIT, HOST_FUNCTION, GRAPH } OperationKind;

typedef struct Operation {
    struct Operation *next;
    OperationKind kind;
    /* COPY: rows of `row_bytes`; FILL: `rows` elements of `element_bytes`. */
    bool from_host, to_host;
    Pointer to, from;
    size_t row_bytes, rows, to_pitch, from_pitch;
    unsigned value, element_bytes;
    /* RECORD, WAIT */
    Event *event;
    uint64_t recording;
    /* HOST_FUNCTION */
    void (*function)(void *);
    void *argument;
    /* GRAPH */
    Graph *graph;
} Operation;

struct Graph {
    Graph *next;
    Operation *first, *last;
    size_t count;
    int users; /* launches that wait */
    bool executable, destroyed;
};

struct Stream {
    Stream *next;
    unsigned flags;
    Operation *first, *last;
    bool running; /* a thread is inside one of its operations */
    /* capture */
    Graph *capture;
    bool capture_origin, capture_invalid;
    int capture_mode;
    pthread_t capture_thread;
    size_t captured, joined;
};

struct Event {
    Event *next;
    unsigned flags;
    uint64_t recorded, done; /* number of the last recording asked for, and of the last that passed */
    uint64_t time_us;
    Stream *stream;
    Graph *capture;
    size_t capture_position;
};

enum { NON_BLOCKING = 1, DISABLE_TIMING = 2 };
enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };

extern Stream default_stream, *all_streams;
extern int sticky_error; /* of the context: after an illegal address every call fails */

Stream *find_stream(void *handle);
Event *find_event(void *handle);
Result enqueue(Stream *stream, Operation operation);
Result run_operation(Stream *stream, Operation *operation);
void drain(Stream *stream);
void drain_all(void);
void drain_blocking(void); /* what the legacy default stream waits for */
size_t free_all_streams(void);
size_t free_all_graphs(void);
void release_graph(Graph *graph);
/* An error when a capture forbids a call that could allocate or wait; it spoils that capture. */
Result refuse_during_capture(void);
Result refuse_waiting_during_capture(void);

/* ---- calls ------------------------------------------------------------------------------------------ */

void lock(void);
void unlock(void);
/* Releases the lock whatever its depth, for a host function, and takes it again. */
int unlock_fully(void);
void lock_again(int depth);
void wait_for_change(void);
void tell_change(void);

extern __thread bool inside_host_function;

Result enter(const char *function); /* counts the call; the fault that a test ordered, or SUCCESS */
Result need_initialised(void);
Result need_context(void);

/* Each function of the driver begins with one of these. */
#define ENTER(function)                                                                                 \
    do {                                                                                                \
        Result entered_ = enter(function);                                                              \
        if (entered_) return entered_;                                                                  \
    } while (0)
#define ENTER_INITIALISED(function)                                                                     \
    do {                                                                                                \
        ENTER(function);                                                                                \
        Result ready_ = need_initialised();                                                             \
        if (ready_) return ready_;                                                                      \
    } while (0)
#define ENTER_CONTEXT(function)                                                                         \
    do {                                                                                                \
        ENTER(function);                                                                                \
        Result ready_ = need_context();                                                                 \
        if (ready_) return ready_;                                                                      \
    } while (0)

#endif
