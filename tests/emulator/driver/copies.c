/* Copies and fills. A copy between the device and memory that is not page-locked is counted: on a real GPU it
 * is no asynchronous copy at all. */
#include <string.h>

#include "emulator.h"

static char *host_side(Pointer address, size_t nbytes, bool page_locked) {
    char *host = (char *)(uintptr_t)address;
    if (!page_locked) return host;
    Region *region = region_on_host(host, nbytes);
    return region ? region->backing + ((uintptr_t)host - region->host) : NULL;
}

static Result copy_rows(const Operation *copy, bool host_is_page_locked) {
    for (size_t row = 0; row < copy->rows; row++) {
        Pointer to = copy->to + row * copy->to_pitch, from = copy->from + row * copy->from_pitch;
        size_t nbytes = copy->row_bytes;
        char *target = copy->to_host ? host_side(to, nbytes, host_is_page_locked) : backing_of(to, nbytes);
        char *origin = copy->from_host ? host_side(from, nbytes, host_is_page_locked) : backing_of(from, nbytes);
        if (!target || !origin) { /* freed since it was asked for */
            counters.illegal_addresses++;
            return ILLEGAL_ADDRESS;
        }
        memmove(target, origin, nbytes);
    }
    return SUCCESS;
}

/* Asynchronous copies reach the host's side again through its allocation, which may have been freed. */
Result copy_now(const Operation *copy) { return copy_rows(copy, true); }

Result fill_now(const Operation *fill) {
    char *target = backing_of(fill->to, fill->rows * fill->element_bytes);
    if (!target) {
        counters.illegal_addresses++;
        return ILLEGAL_ADDRESS;
    }
    for (size_t i = 0; i < fill->rows; i++)
        memcpy(target + i * fill->element_bytes, &fill->value, fill->element_bytes);
    return SUCCESS;
}

static size_t extent(size_t row_bytes, size_t rows, size_t pitch) { return (rows - 1) * pitch + row_bytes; }

static Result check_device_sides(const Operation *copy) {
    size_t to = extent(copy->row_bytes, copy->rows, copy->to_pitch);
    size_t from = extent(copy->row_bytes, copy->rows, copy->from_pitch);
    bool good = (copy->to_host ? !touches_device_only((void *)(uintptr_t)copy->to, to) : !!backing_of(copy->to, to)) &&
                (copy->from_host ? !touches_device_only((void *)(uintptr_t)copy->from, from)
                                 : !!backing_of(copy->from, from));
    if (good) return SUCCESS;
    counters.illegal_addresses++;
    return INVALID_VALUE;
}

static Result start(Operation copy, void *stream_handle, bool asynchronous) {
    copy.kind = COPY;
    Stream *stream = find_stream(stream_handle);
    if (!stream) return INVALID_HANDLE;
    if (!copy.row_bytes || !copy.rows) return SUCCESS;
    Result refused = check_device_sides(&copy);
    if (refused) return refused;
    size_t nbytes = copy.row_bytes * copy.rows;
    bool host_involved = copy.to_host || copy.from_host;
    Pointer host = copy.to_host ? copy.to : copy.from;
    size_t pitch = copy.to_host ? copy.to_pitch : copy.from_pitch;
    bool pageable =
        host_involved && !region_on_host((void *)(uintptr_t)host, extent(copy.row_bytes, copy.rows, pitch));
    if (!asynchronous && (refused = refuse_waiting_during_capture())) return refused;
    if (pageable && asynchronous && stream->capture) {
        stream->capture_invalid = true;
        return CAPTURE_UNSUPPORTED;
    }
    if (!stream->capture) {
        if (copy.to_host) counters.device_to_host_bytes += nbytes;
        else if (copy.from_host) counters.host_to_device_bytes += nbytes;
        else counters.device_to_device_bytes += nbytes;
    }
    if (pageable && asynchronous) counters.pageable_copies++;
    if (asynchronous && !pageable) return enqueue(stream, copy);
    /* At once, behind what waits already. */
    if (asynchronous) drain(stream);
    else drain_blocking();
    if (!asynchronous) counters.synchronisations++;
    Result answer = copy_rows(&copy, host_involved && !pageable);
    if (answer) sticky_error = answer;
    return answer;
}

static Result copy(const char *name, Operation operation, void *stream, bool asynchronous) {
    ENTER_CONTEXT(name);
    lock();
    Result answer = start(operation, stream, asynchronous);
    unlock();
    return answer;
}

static Operation line(Pointer to, bool to_host, Pointer from, bool from_host, size_t nbytes) {
    return (Operation){.to = to, .to_host = to_host, .from = from, .from_host = from_host,
                       .row_bytes = nbytes, .rows = 1, .to_pitch = nbytes, .from_pitch = nbytes};
}

API Result cuMemcpyHtoD_v2(Pointer to, const void *from, size_t nbytes) {
    return copy("cuMemcpyHtoD", line(to, false, (uintptr_t)from, true, nbytes), NULL, false);
}
API Result cuMemcpyDtoH_v2(void *to, Pointer from, size_t nbytes) {
    return copy("cuMemcpyDtoH", line((uintptr_t)to, true, from, false, nbytes), NULL, false);
}
API Result cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t nbytes) {
    return copy("cuMemcpyDtoD", line(to, false, from, false, nbytes), NULL, false);
}
API Result cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t nbytes, void *stream) {
    return copy("cuMemcpyHtoDAsync", line(to, false, (uintptr_t)from, true, nbytes), stream, true);
}
API Result cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t nbytes, void *stream) {
    return copy("cuMemcpyDtoHAsync", line((uintptr_t)to, true, from, false, nbytes), stream, true);
}
API Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t nbytes, void *stream) {
    return copy("cuMemcpyDtoDAsync", line(to, false, from, false, nbytes), stream, true);
}

/* ---- fills ------------------------------------------------------------------------------------------ */

static Result fill(const char *name, Pointer to, unsigned value, size_t count, unsigned size, void *handle,
                   bool asynchronous) {
    ENTER_CONTEXT(name);
    lock();
    Operation operation = {.kind = FILL, .to = to, .value = value, .rows = count, .element_bytes = size};
    Stream *stream = find_stream(handle);
    Result answer = !stream ? INVALID_HANDLE : backing_of(to, count * size) ? SUCCESS : INVALID_VALUE;
    if (!answer && !asynchronous) answer = refuse_waiting_during_capture();
    if (!answer) answer = enqueue(stream, operation);
    unlock();
    return answer;
}

/* Without a stream: on the default stream, and not waited for, as on a real GPU. */
API Result cuMemsetD8_v2(Pointer to, unsigned char value, size_t count) {
    return fill("cuMemsetD8", to, value, count, 1, NULL, false);
}
API Result cuMemsetD16_v2(Pointer to, unsigned short value, size_t count) {
    return fill("cuMemsetD16", to, value, count, 2, NULL, false);
}
API Result cuMemsetD32_v2(Pointer to, unsigned value, size_t count) {
    return fill("cuMemsetD32", to, value, count, 4, NULL, false);
}
API Result cuMemsetD8Async(Pointer to, unsigned char value, size_t count, void *stream) {
    return fill("cuMemsetD8Async", to, value, count, 1, stream, true);
}
API Result cuMemsetD16Async(Pointer to, unsigned short value, size_t count, void *stream) {
    return fill("cuMemsetD16Async", to, value, count, 2, stream, true);
}
API Result cuMemsetD32Async(Pointer to, unsigned value, size_t count, void *stream) {
    return fill("cuMemsetD32Async", to, value, count, 4, stream, true);
}
