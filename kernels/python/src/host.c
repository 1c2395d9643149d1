#include "kernels/python/src/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char words[4096];
static _Thread_local int status_of_words;

const char* host_words(const char* format, ...) {
  char text[sizeof words]; /* the arguments may refer to the previous text */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(words, text, sizeof words);
  status_of_words = PTXB_INVALID_ARGUMENT;
  return words;
}

static const char* words_of_status(const char* text, int status) {
  host_words("%s", text);
  status_of_words = status;
  return words;
}
const char* said(int status) { return status == PTXB_OK ? NULL : words_of_status(ptxb_error(), status); }
static const char* no_memory(void) { return words_of_status("no memory", PTXB_OUT_OF_MEMORY); }
int host_status(const char* error) { return error == words ? status_of_words : PTXB_INVALID_ARGUMENT; }

/* ---- Devices and programs are opened once and never closed, since work may be queued at exit ----
 */

enum { DEVICES = MOST_GPUS + 1 };
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(ptxb_device*) devices[DEVICES]; /* the first is the emulator */

/* A child of fork() inherits the locks that other threads held, without these threads, and no device works in
 * it. Therefore, once a process has used a device, its children cannot use any device. */
static atomic_bool is_forked;
static void forget(void);
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, forget); }
static const char* begin_use(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (is_forked)
    return "this process was forked from one that had used a device, but a device works only in the process "
           "that opened it: start the process with \"spawn\", as multiprocessing.get_context(\"spawn\") "
           "does, or fork before the first call";
  pthread_once(&once, watch_forks);
  return NULL;
}

static const char* bad_device(int number) {
  return host_words("device %d is neither the emulator nor one of the GPUs 0 to %d", number, MOST_GPUS - 1);
}

const char* host_device(int number, ptxb_device** device) {
  if (number < EMULATOR || number >= MOST_GPUS) return bad_device(number);
  _Atomic(ptxb_device*)* place = &devices[number + 1];
  *device = atomic_load_explicit(place, memory_order_acquire);
  if (*device) return NULL;
  const char* error = begin_use();
  if (error) return error;
  char name[16] = "emulator";
  if (number != EMULATOR) snprintf(name, sizeof name, "cuda:%d", number);
  pthread_mutex_lock(&opening);
  *device = atomic_load_explicit(place, memory_order_acquire);
  if (!*device) {
    error = said(ptxb_open(name, device));
    if (!error) atomic_store_explicit(place, *device, memory_order_release);
  }
  pthread_mutex_unlock(&opening);
  return error;
}

struct host_program {
  char *path, *kernel, *waived;
  _Atomic(ptxb_kernel*) on[DEVICES];
  pthread_mutex_t loading; /* each kernel has its own lock, since loading takes long */
  host_program* next;
};
static _Atomic(host_program*) programs; /* newest first; programs are never removed */

const char* host_program_of(const char* path, const char* kernel, const char* waived,
                            host_program** program) {
  const char* error = begin_use();
  if (error) return error;
  pthread_mutex_lock(&opening);
  host_program* newest = atomic_load_explicit(&programs, memory_order_acquire);
  host_program* found = newest;
  while (found && (strcmp(found->path, path) || strcmp(found->kernel, kernel ? kernel : "") ||
                   strcmp(found->waived, waived)))
    found = found->next;
  if (!found && (found = calloc(1, sizeof *found))) {
    found->path = strdup(path), found->kernel = strdup(kernel ? kernel : "");
    found->waived = strdup(waived);
    pthread_mutex_init(&found->loading, NULL);
    found->next = newest;
    atomic_store_explicit(&programs, found, memory_order_release);
  }
  pthread_mutex_unlock(&opening);
  *program = found;
  return found ? NULL : no_memory();
}

static bool ends_with(const char* path, const char* end) {
  const size_t size = strlen(path), of_end = strlen(end);
  return size >= of_end && !strcmp(path + size - of_end, end);
}

/* Compiles a module of LLVM IR, as text or bitcode, for the device. */
static const char* load_ir(ptxb_device* on, const host_program* p, const char* kernel, ptxb_kernel** loaded) {
  FILE* file = fopen(p->path, "rb");
  if (!file) return host_words("cannot read %s: %s", p->path, strerror(errno));
  char* ir = NULL;
  size_t bytes = 0, room = 0, got = 1;
  while (got > 0) {
    if (bytes == room) {
      char* more = realloc(ir, room = room ? 2 * room : 1 << 16);
      if (!more) break;
      ir = more;
    }
    got = fread(ir + bytes, 1, room - bytes, file);
    bytes += got;
  }
  ptxb_ir_options options = PTXB_IR_OPTIONS_INIT;
  options.waived = p->waived;
  const char* error = got > 0        ? no_memory()
                      : ferror(file) ? host_words("cannot read %s: %s", p->path, strerror(errno))
                                     : said(ptxb_load_ir_with(on, ir, bytes, kernel, &options, loaded));
  fclose(file);
  free(ir);
  return error;
}

static const char* load(ptxb_device* on, const host_program* p, ptxb_kernel** loaded) {
  const char* kernel = p->kernel[0] ? p->kernel : NULL;
  if (ends_with(p->path, ".ll") || ends_with(p->path, ".bc")) return load_ir(on, p, kernel, loaded);
  if (p->waived[0])
    return host_words("%s: only a module of LLVM IR, .ll or .bc, is compiled here and may waive %s", p->path,
                      p->waived);
  return said(ptxb_load(on, p->path, kernel, loaded));
}

const char* host_kernel(host_program* program, int device, ptxb_kernel** kernel) {
  if (device < EMULATOR || device >= MOST_GPUS) return bad_device(device);
  _Atomic(ptxb_kernel*)* place = &program->on[device + 1];
  *kernel = atomic_load_explicit(place, memory_order_acquire);
  if (*kernel) return NULL;
  ptxb_device* on;
  const char* error = host_device(device, &on);
  if (error) return error;
  pthread_mutex_lock(&program->loading);
  *kernel = atomic_load_explicit(place, memory_order_acquire);
  if (!*kernel) {
    error = load(on, program, kernel);
    if (!error) atomic_store_explicit(place, *kernel, memory_order_release);
  }
  pthread_mutex_unlock(&program->loading);
  return error;
}

/* Runs in the child of a fork, and makes every call in the child fail in begin_use(). */
static void forget(void) {
  is_forked = true;
  for (int i = 0; i < DEVICES; ++i) atomic_store(&devices[i], NULL);
  for (host_program* p = atomic_load(&programs); p; p = p->next)
    for (int i = 0; i < DEVICES; ++i) atomic_store(&p->on[i], NULL);
}

/* ---- Operations and launches on memory of the device ---- */

static ptxb_attention_gradient gradient_of(const operation* o) {
  ptxb_attention_gradient gradient = o->gradient;
  gradient.attention = &o->attention;
  return gradient;
}

static ptxb_rows rows_of(const operation* o) {
  ptxb_rows rows = o->rows;
  rows.tensors = o->row_tensors;
  return rows;
}

static int workspace_of(ptxb_device* on, const operation* o, size_t* bytes) {
  if (o->kind == ROWS) {
    const ptxb_rows rows = rows_of(o);
    return ptxb_rows_workspace(on, &rows, bytes);
  }
  if (o->kind == MATMUL) return ptxb_matmul_workspace(on, &o->matmul, bytes);
  if (o->kind == CONTRACTION) return ptxb_contraction_workspace(on, &o->contraction, bytes);
  if (o->kind == CONVOLUTION) return ptxb_convolution_workspace(on, &o->convolution, bytes);
  if (o->kind == ATTENTION) return ptxb_attention_workspace(on, &o->attention, bytes);
  const ptxb_attention_gradient gradient = gradient_of(o);
  return ptxb_attention_gradient_workspace(on, &gradient, bytes);
}

static int run(ptxb_device* on, const operation* o, void* workspace, size_t bytes, void* stream) {
  if (o->kind == ROWS) {
    const ptxb_rows rows = rows_of(o);
    return ptxb_rows_run(on, &rows, workspace, bytes, stream);
  }
  if (o->kind == MATMUL) return ptxb_matmul_run(on, &o->matmul, workspace, bytes, stream);
  if (o->kind == CONTRACTION) return ptxb_contraction_run(on, &o->contraction, workspace, bytes, stream);
  if (o->kind == CONVOLUTION) return ptxb_convolution_run(on, &o->convolution, workspace, bytes, stream);
  if (o->kind == ATTENTION) return ptxb_attention_run(on, &o->attention, workspace, bytes, stream);
  const ptxb_attention_gradient gradient = gradient_of(o);
  return ptxb_attention_gradient_run(on, &gradient, workspace, bytes, stream);
}

const char* host_workspace(int device, const operation* o, size_t* bytes) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(workspace_of(on, o, bytes));
}

const char* host_explain(int device, const operation* o, const char** text) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_contraction_explain(on, &o->contraction, text));
}

const char* host_run(int device, const operation* o, void* workspace, size_t bytes, void* stream) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(run(on, o, workspace, bytes, stream));
}

const char* host_ranked_memory(int device, const ptxb_ranked* ranked, size_t* bytes) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_memory(on, ranked, bytes));
}

const char* host_ranked(int device, const ptxb_ranked* ranked, void* stream) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_run(on, ranked, stream));
}

const char* host_ranked_norm_memory(int device, const ptxb_ranked_norm* norm, size_t* bytes) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_norm_memory(on, norm, bytes));
}

const char* host_ranked_norm(int device, const ptxb_ranked_norm* norm, void* stream) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_norm_run(on, norm, stream));
}

const char* host_ranked_tokens_memory(int device, const ptxb_ranked_tokens* tokens, size_t* bytes) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_tokens_memory(on, tokens, bytes));
}

const char* host_ranked_tokens(int device, const ptxb_ranked_tokens* tokens, void* stream) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  return error ? error : said(ptxb_ranked_tokens_run(on, tokens, stream));
}

const char* host_read(int device, void* stream, void* to, const void* from, size_t bytes) {
  ptxb_device* on;
  const char* error = host_device(device, &on);
  if (!error) error = said(ptxb_wait(on, stream, LONGEST_WAIT));
  return error ? error : said(ptxb_copy_out(on, to, from, bytes));
}

const char* host_launch(host_program* program, int device, const uint32_t* grid,
                        const ptxb_argument* arguments, size_t count, void* stream) {
  ptxb_kernel* kernel;
  const char* error = host_kernel(program, device, &kernel);
  return error ? error : said(ptxb_launch(kernel, grid, arguments, count, stream));
}

void swapped(ptxb_tensor* t, int first, int second, int64_t* shape, int64_t* strides) {
  int64_t compact = 1;
  for (int i = t->ndim; i-- > 0;) {
    shape[i] = t->shape[i];
    strides[i] = t->strides ? t->strides[i] : compact;
    compact *= t->shape[i];
  }
  const int64_t extent = shape[first], stride = strides[first];
  shape[first] = shape[second], shape[second] = extent;
  strides[first] = strides[second], strides[second] = stride;
  t->shape = shape, t->strides = strides;
}

const operand_row operand_rows[OPERANDS] = {
#define PTXBUILDER_MATRIX(name, shown, word, role, ...) \
  {#word, sizeof #word > 2 ? #word : #shown, "addend", "elements", #role, SHAPE_elements, ROLE_##role},
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  {#word, #word, #type, #shape, #role, SHAPE_##shape, ROLE_##role},
#include "kernels/gemm/product.def"
};
