// The C code that the sources of all exported kernels share.
#include "kernels/export/export.h"

namespace ptxbuilder::command {

const char* const exported_driver = R"(
struct launch_attribute {
  int id;
  char pad[4];
  union {
    uint64_t pad[8];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic, cooperative;
  } value;
};
struct launch_config {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  struct launch_attribute* attributes;
  unsigned attribute_count;
};

/* The calls in use, in the order of call_names. */
struct driver {
  int (*init)(unsigned);
  int (*error_name)(int, const char**);
  int (*error_string)(int, const char**);
  int (*get_current)(void**);
  int (*set_current)(void*);
  int (*get_device)(int*);
  int (*stream_context)(void*, void**);
  int (*primary_context)(void**, int);
  int (*device_attribute)(int*, int, int);
  int (*load)(void**, const void*, int*, void**, unsigned, int*, void**, unsigned);
  int (*find_kernel)(void**, void*, const char*);
  int (*set_kernel)(int, int, void*, int);
  int (*exchange_capture_mode)(int*);
  int (*encode)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int,
                int, int, int);
  int (*launch)(const struct launch_config*, void*, void**, void**);
};
static const char* const call_names[] = {
    "cuInit", "cuGetErrorName", "cuGetErrorString", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice",
    "cuStreamGetCtx", "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute", "cuLibraryLoadData", "cuLibraryGetKernel",
    "cuKernelSetAttribute", "cuThreadExchangeStreamCaptureMode", "cuTensorMapEncodeTiled", "cuLaunchKernelEx"};

static __thread char error_text[1024];

/* Prints the reason after the exported name, and returns `status`. */
__attribute__((format(printf, 2, 3))) static int fail(int status, const char* format, ...) {
  va_list values;
  const int begin = snprintf(error_text, sizeof error_text, "%s: ", EXPORTED);
  va_start(values, format);
  vsnprintf(error_text + begin, sizeof error_text - (size_t)begin, format, values);
  va_end(values);
  return status;
}

static int driver_failed(const struct driver* d, int status, const char* call, const char* of) {
  const char *name = NULL, *words = NULL;
  if (d->error_name(status, &name) || !name) name = "an error without a name";
  if (d->error_string(status, &words) || !words) words = "";
  return fail(status, "%s of %s failed: %s (%d)%s%s%s", call, of, name, status, *words ? ": " : "", words,
              status == NOT_INITIALIZED ? ": a process that was forked from one that uses CUDA cannot use it" : "");
}

/* Several threads may look the calls up at once; all use the result that the first has published. */
static int find_driver(const struct driver** found) {
  static struct driver* published = NULL;
  struct driver *made, *before = NULL;
  void* library;
  size_t i;
  int status;
  *found = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
  if (*found) return 0;
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(REFUSED, "there is no NVIDIA driver: %s", dlerror());
  made = (struct driver*)malloc(sizeof *made);
  if (!made) return fail(REFUSED, "out of memory");
  for (i = 0; i < sizeof call_names / sizeof *call_names; ++i) {
    void* call = dlsym(library, call_names[i]);
    if (!call) {
      free(made);
      return fail(REFUSED, "the NVIDIA driver has no %s: it must be of CUDA 12.0 or newer", call_names[i]);
    }
    memcpy((char*)made + i * sizeof call, &call, sizeof call);
  }
  status = made->init(0);
  if (status) {
    status = driver_failed(made, status, "cuInit", "the driver");
    free(made);
    return status;
  }
  if (__atomic_compare_exchange_n(&published, &before, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    *found = made;
  } else {
    free(made);
    *found = before;
  }
  return 0;
}

/* The primary context of device 0, which is retained once and never released. */
static int primary_context(const struct driver* d, void** context) {
  static void* published = NULL;
  void* before = NULL;
  int status;
  *context = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
  if (*context) return 0;
  status = d->primary_context(context, 0);
  if (status) return driver_failed(d, status, "cuDevicePrimaryCtxRetain", "device 0");
  if (!__atomic_compare_exchange_n(&published, &before, *context, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    *context = before;
  return 0;
}

/* Makes a context current if none is: the stream's, or device 0's for the default streams, NULL, 1 and 2. */
static int enter(const struct driver* d, void* stream, int* entered, int* device) {
  void *now = NULL, *context = NULL;
  int status = d->get_current(&now);
  *entered = 0;
  if (status) return driver_failed(d, status, "cuCtxGetCurrent", "the thread");
  if (!now) {
    if ((uintptr_t)stream > 2) {
      status = d->stream_context(stream, &context);
      if (status) return driver_failed(d, status, "cuStreamGetCtx", "the stream");
    } else {
      status = primary_context(d, &context);
      if (status) return status;
    }
    status = d->set_current(context);
    if (status) return driver_failed(d, status, "cuCtxSetCurrent", "the stream's context");
    *entered = 1;
  }
  status = d->get_device(device);
  if (status) {
    if (*entered) d->set_current(NULL);
    return driver_failed(d, status, "cuCtxGetDevice", "the current context");
  }
  return 0;
}

/* One configuration. */
struct kernel {
  const char* name;
  const unsigned char *image, *ptx; /* ptx: where the driver takes no cubin, as the emulator; or NULL */
  unsigned block[3], shared_bytes, cluster[3];
  int overlaps, cooperative;
};

static int check_device(const struct driver* d, const struct kernel* k, int device) {
  int major = 0, minor = 0, status = d->device_attribute(&major, COMPUTE_CAPABILITY_MAJOR, device);
  if (!status) status = d->device_attribute(&minor, COMPUTE_CAPABILITY_MINOR, device);
  if (status) return driver_failed(d, status, "cuDeviceGetAttribute", "the current device");
  if (major != 9 || minor != 0)
    return fail(REFUSED, "kernel '%s' runs only on GPUs of compute capability 9.0, but device %d has %d.%d", k->name,
                device, major, minor);
  return 0;
}

/* Loads the kernel if it is not loaded, and prepares it on a device. */
static int load(const struct driver* d, const struct kernel* k, void** published, uint64_t* ready, int device,
                void** found) {
  void *library = NULL, *before = NULL;
  int status = check_device(d, k, device);
  if (status) return status;
  if (!*found) {
    status = d->load(&library, k->image, NULL, NULL, 0, NULL, NULL, 0);
    if (status == NO_BINARY_FOR_GPU && k->ptx) status = d->load(&library, k->ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (status) return driver_failed(d, status, "cuLibraryLoadData", k->name);
    status = d->find_kernel(found, library, k->name);
    if (status) return driver_failed(d, status, "cuLibraryGetKernel", k->name);
    if (!__atomic_compare_exchange_n(published, &before, *found, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      *found = before;
  }
  status = d->set_kernel(MAX_DYNAMIC_SHARED_BYTES, (int)k->shared_bytes, *found, device);
  if (!status && k->cluster[0] * k->cluster[1] * k->cluster[2] > PORTABLE_CLUSTER)
    status = d->set_kernel(NON_PORTABLE_CLUSTER, 1, *found, device);
  if (status) return driver_failed(d, status, "cuKernelSetAttribute", k->name);
  if (device < 64) __atomic_fetch_or(ready, (uint64_t)1 << device, __ATOMIC_RELEASE);
  return 0;
}

/* The kernel on a device. Several threads may load it at once, and all use the one that the first has published; the other copies stay loaded, since unloading is not allowed while a graph is captured. Loading is allowed in a thread whose capture mode is relaxed meanwhile. */
static int prepare(const struct driver* d, const struct kernel* k, void** published, uint64_t* ready, int device,
                   void** found) {
  int status, mode = RELAXED_CAPTURE;
  *found = __atomic_load_n(published, __ATOMIC_ACQUIRE);
  if (*found && device < 64 && (__atomic_load_n(ready, __ATOMIC_ACQUIRE) >> device & 1)) return 0;
  status = d->exchange_capture_mode(&mode);
  if (status) return driver_failed(d, status, "cuThreadExchangeStreamCaptureMode", "the thread");
  status = load(d, k, published, ready, device, found);
  d->exchange_capture_mode(&mode);
  return status;
}
)";

const char* const exported_maps = R"(
/* The way a tensor is read: all arguments of cuTensorMapEncodeTiled except the tensor's own. */
struct recipe {
  const char* parameter;
  int type;
  unsigned element_bytes, rank;
  uint32_t box[5], element_strides[5];
  int interleave, swizzle, l2_promotion, oob_fill;
};
/* A CUtensorMap. */
struct map {
  unsigned char bytes[128];
} __attribute__((aligned(64)));

/* The driver returns the same code for every violation of its rules. */
static int check_tensor(const struct recipe* r, const void* data, const uint64_t* shape, const uint64_t* strides) {
  const uint64_t unit = r->interleave == 2 ? 32 : 16, row = shape[0] * r->element_bytes;
  unsigned i;
  if ((uintptr_t)data % unit != 0)
    return fail(REFUSED, "parameter '%s': the address %p is not a multiple of %u B", r->parameter, data, (unsigned)unit);
  for (i = 0; i < r->rank; ++i)
    if (shape[i] == 0 || shape[i] > (uint64_t)1 << 32)
      return fail(REFUSED, "parameter '%s': shape[%u] = %llu is not in 1 to 2^32 elements", r->parameter, i,
                  (unsigned long long)shape[i]);
  for (i = 0; i + 1 < r->rank; ++i) {
    const unsigned long long stride = strides[i];
    if (stride >= (uint64_t)1 << 40)
      return fail(REFUSED, "parameter '%s': stride_bytes[%u] = %llu is not below 2^40", r->parameter, i, stride);
    if (r->interleave == 0 && shape[i + 1] > 1 && stride < row)
      return fail(REFUSED, "parameter '%s': stride_bytes[%u] = %llu is less than a row, %llu B", r->parameter, i, stride,
                  (unsigned long long)row);
    if (stride % unit != 0)
      return fail(REFUSED, "parameter '%s': stride_bytes[%u] = %llu is not a multiple of %u", r->parameter, i, stride,
                  (unsigned)unit);
  }
  return 0;
}

static int encode(const struct driver* d, const struct recipe* r, void* data, const uint64_t* shape,
                  const uint64_t* strides, struct map* to) {
  int status = check_tensor(r, data, shape, strides);
  if (status) return status;
  status = d->encode(to, r->type, r->rank, data, shape, strides, r->box, r->element_strides, r->interleave, r->swizzle,
                     r->l2_promotion, r->oob_fill);
  return status ? driver_failed(d, status, "cuTensorMapEncodeTiled", r->parameter) : 0;
}
)";

// log2_of() squares the mantissa for each fractional bit.
const char* const exported_nearest = R"(
/* log2 of a number from 1 on, times 65536. */
static int64_t log2_of(uint64_t x) {
  const int whole = 63 - __builtin_clzll(x);
  uint64_t mantissa = whole < 32 ? x << (32 - whole) : x >> (whole - 32); /* 1 to 2, times 2^32 */
  int64_t result = whole;
  int i;
  for (i = 0; i < 16; ++i) {
    mantissa = (mantissa >> 1) * (mantissa >> 1) >> 30;
    result = 2 * result + (int64_t)(mantissa >> 33);
    if (mantissa >> 33) mantissa >>= 1;
  }
  return result;
}

static size_t nearest(const int64_t size[AXES]) {
  int64_t best = INT64_MAX;
  size_t kernel = 0, i, axis;
  for (i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    int64_t distance = 0;
    for (axis = 0; axis < AXES; ++axis) {
      const int64_t apart =
          log2_of(size[axis] < 1 ? 1 : (uint64_t)size[axis]) - log2_of(shapes[i].size[axis]);
      distance += apart < 0 ? -apart : apart;
    }
    if (distance < best) {
      best = distance;
      kernel = shapes[i].kernel;
    }
  }
  return kernel;
}
)";

const char* const exported_launch = R"(
static void* published[KERNELS];
static uint64_t ready[KERNELS]; /* a bit for each device */

static int check_grid(const struct kernel* k, const int64_t grid[3]) {
  int i;
  for (i = 0; i < 3; ++i) {
    const int64_t most = i == 0 ? GRID_X : GRID_YZ;
    if (grid[i] < 1 || grid[i] > most)
      return fail(REFUSED, "kernel '%s': the grid has %lld CTAs along %c, but must have 1 to %lld", k->name,
                  (long long)grid[i], "xyz"[i], (long long)most);
    if (grid[i] % k->cluster[i] != 0)
      return fail(REFUSED, "kernel '%s': %lld CTAs along %c are not a multiple of the cluster's %u", k->name,
                  (long long)grid[i], "xyz"[i], k->cluster[i]);
  }
  return 0;
}

static int queue(const struct driver* d, size_t number, const int64_t grid[3], int device, void* stream,
                 void** parameters) {
  const struct kernel* k = &kernels[number];
  struct launch_attribute attributes[3];
  struct launch_config config;
  void* kernel;
  int status = check_grid(k, grid), i;
  if (!status) status = prepare(d, k, &published[number], &ready[number], device, &kernel);
  if (status) return status;
  memset(attributes, 0, sizeof attributes);
  memset(&config, 0, sizeof config);
  for (i = 0; i < 3; ++i) config.grid[i] = (unsigned)grid[i], config.block[i] = k->block[i];
  config.shared_bytes = k->shared_bytes;
  config.stream = stream;
  config.attributes = attributes;
  if (k->cluster[0] * k->cluster[1] * k->cluster[2] > 1) {
    struct launch_attribute* a = &attributes[config.attribute_count++];
    a->id = CLUSTER_DIMENSION;
    a->value.cluster.x = k->cluster[0];
    a->value.cluster.y = k->cluster[1];
    a->value.cluster.z = k->cluster[2];
  }
  if (k->overlaps) {
    struct launch_attribute* a = &attributes[config.attribute_count++];
    a->id = PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmatic = 1;
  }
  if (k->cooperative) {
    struct launch_attribute* a = &attributes[config.attribute_count++];
    a->id = COOPERATIVE;
    a->value.cooperative = 1;
  }
  status = d->launch(&config, kernel, parameters, NULL);
  return status ? driver_failed(d, status, "cuLaunchKernelEx", k->name) : 0;
}
)";

}  // namespace ptxbuilder::command
