/* Runs operations and kernels on host memory. Tensors are copied to a device, and written tensors are copied
 * back. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/python/src/host.h"

/* A thread holds this lock from its first copy to its last. The emulator runs all queued work in the thread
 * that waits, so the lock ensures that errors and interruptions affect only the thread's own work. */
static pthread_mutex_t emulating = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct {
  int (*is_interrupted)(void* context);
  void* context;
} asked;

void host_interrupt_by(int (*is_interrupted)(void* context), void* context) {
  asked.is_interrupted = is_interrupted, asked.context = context;
}

static const char* enter(int device) {
  if (device != EMULATOR) return NULL;
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
    if (pthread_mutex_timedlock(&emulating, &until) == 0) break;
    if (asked.is_interrupted && asked.is_interrupted(asked.context)) return "interrupted";
  }
  ptxb_interrupt_by(asked.is_interrupted, asked.context);
  return NULL;
}

static void leave(int device) {
  if (device != EMULATOR) return;
  ptxb_interrupt_by(NULL, NULL);
  pthread_mutex_unlock(&emulating);
}

/* Tensors in host memory that are copied to a device. Tensors that overlap are copied as one piece, so that
 * they overlap in the same way on the device, and the library can check its rules about overlapping
 * operands. */
typedef struct staged {
  ptxb_device* device;
  int64_t count, pieces;
  bool is_placed;
  struct staged_piece {
    const char *from, *to; /* on the host */
    char* address;         /* on the device */
    void* allocated;
  } * piece;
  struct staged_tensor {
    const ptxb_tensor* here;
    ptxb_tensor there;
    bool is_written;
  } * tensor;
  ptxb_tensor* matrices; /* the matrices at b_addresses; their copies are the last tensors */
  int64_t first_matrix;
} staged;

/* Allocates space for the operands of any operation, and for `matrices` matrices. */
static const char* make_room(staged* s, int64_t matrices) {
  const size_t all = MOST_OPERANDS + (size_t)matrices;
  s->piece = calloc(all, sizeof *s->piece), s->tensor = calloc(all, sizeof *s->tensor);
  s->matrices = calloc((size_t)matrices + 1, sizeof *s->matrices);
  return s->piece && s->tensor && s->matrices ? NULL : "no memory for copies of the operands";
}

/* Finds the first byte of a tensor and the end of its last byte. For a layout that no operation supports, the
 * result does not matter, because the library rejects the tensor before it reads it. */
static void span_of(const ptxb_tensor* t, const char** from, const char** to) {
  const char* begin = (const char*)t->data + t->byte_offset;
  const int64_t size = (int64_t)t->dtype.bits / 8 * t->dtype.lanes;
  int64_t first = 0, last = 1, compact = 1;
  for (int i = t->ndim; i-- > 0;) {
    const int64_t stride = t->strides ? t->strides[i] : compact;
    if (t->shape[i] == 0) {
      *from = *to = begin;
      return;
    }
    *(stride < 0 ? &first : &last) += (t->shape[i] - 1) * stride;
    compact *= t->shape[i];
  }
  *from = begin + first * size, *to = begin + last * size;
}

/* Returns the tensor's copy on the device; NULL if the tensor is NULL. */
static const ptxb_tensor* stage(staged* s, const ptxb_tensor* here, bool is_written) {
  if (!here) return NULL;
  const int64_t i = s->count++;
  s->tensor[i].here = here, s->tensor[i].there = *here, s->tensor[i].is_written = is_written;
  const char *from, *to;
  span_of(here, &from, &to);
  for (int64_t k = 0; from < to && k < s->pieces;) {
    if (from < s->piece[k].to && s->piece[k].from < to) { /* the two overlap, so they are merged into one
                                                             piece, and the search begins again */
      from = from < s->piece[k].from ? from : s->piece[k].from;
      to = to > s->piece[k].to ? to : s->piece[k].to;
      s->piece[k] = s->piece[--s->pieces];
      k = 0;
    } else {
      ++k;
    }
  }
  if (from < to) s->piece[s->pieces].from = from, s->piece[s->pieces++].to = to;
  return &s->tensor[i].there;
}

/* Allocates device memory for each piece. Its address modulo 16 is the same as on the host, since TMA's rules
 * depend on this. */
static const char* place(staged* s) {
  enum { ALIGNED = 16 };
  for (int64_t k = 0; k < s->pieces; ++k) s->piece[k].allocated = NULL;
  s->is_placed = true;
  for (int64_t k = 0; k < s->pieces; ++k) {
    const size_t bytes = (size_t)(s->piece[k].to - s->piece[k].from),
                 shift = (uintptr_t)s->piece[k].from % ALIGNED;
    int status = ptxb_allocate(s->device, bytes + shift, &s->piece[k].allocated);
    if (status) return said(status);
    s->piece[k].address = (char*)s->piece[k].allocated + shift;
    status = ptxb_copy_in(s->device, s->piece[k].address, s->piece[k].from, bytes);
    if (status) return said(status);
  }
  for (int64_t i = 0; i < s->count; ++i) {
    ptxb_tensor* there = &s->tensor[i].there;
    const char* begin = (const char*)there->data + there->byte_offset;
    there->device.type = there->device.id = 0;
    there->byte_offset = 0;
    for (int64_t k = 0; k < s->pieces; ++k)
      if (s->piece[k].from <= begin && begin < s->piece[k].to)
        there->data = s->piece[k].address + (begin - s->piece[k].from);
  }
  return NULL;
}

static const char* copy_back(const staged* s) {
  for (int64_t i = 0; i < s->count; ++i) {
    const char *from, *to;
    span_of(s->tensor[i].here, &from, &to);
    if (!s->tensor[i].is_written || from == to) continue;
    const char* begin = (const char*)s->tensor[i].here->data + s->tensor[i].here->byte_offset;
    char* there = (char*)s->tensor[i].there.data - (begin - from);
    const int status = ptxb_copy_out(s->device, (void*)from, there, (size_t)(to - from));
    if (status) return said(status);
  }
  return NULL;
}

static void let_go(staged* s) {
  for (int64_t k = 0; s->is_placed && k < s->pieces; ++k) {
    if (!s->piece[k].allocated) break;
    (void)ptxb_free(s->device, s->piece[k].allocated); /* a failure here cannot be reported */
  }
  free(s->piece), free(s->tensor), free(s->matrices);
}

static const char* wait_for(ptxb_device* device, int number) {
  return said(ptxb_wait(device, PTXB_OWN_STREAM, number == EMULATOR ? LONGEST_EMULATION : LONGEST_WAIT));
}

/* Returns the number of matrix addresses that a product has; 0 if the library will reject them. */
static int64_t addresses_of(const operation* o) {
  const ptxb_tensor* t = o->kind == MATMUL ? o->matmul.b_addresses : NULL;
  const bool are =
      t && t->ndim == 1 && t->dtype.code == PTXB_INT && t->dtype.bits == 64 && t->dtype.lanes == 1;
  return are ? t->shape[0] : 0;
}
static char* address_in(const ptxb_tensor* t, int64_t i) {
  return (char*)t->data + t->byte_offset + 8 * i * (t->strides ? t->strides[0] : 1);
}

/* Stages the matrices at the addresses, which are in host memory. A group without rows may lack a matrix. */
static void stage_matrices(staged* s, const ptxb_matmul* p, int64_t count) {
  s->first_matrix = s->count;
  for (int64_t i = 0; i < count; ++i) {
    ptxb_tensor* one = &s->matrices[i];
    *one = *p->b, one->byte_offset = 0;
    memcpy(&one->data, address_in(p->b_addresses, i), sizeof one->data);
    if (one->data) (void)stage(s, one, false);
  }
}

/* Replaces the addresses in the device's copy of b_addresses with those of the matrices' copies. */
static const char* tell_addresses(const staged* s, const ptxb_matmul* there) {
  for (int64_t i = s->first_matrix; i < s->count; ++i) {
    char* to = address_in(there->b_addresses, s->tensor[i].here - s->matrices);
    const int status = ptxb_copy_in(s->device, to, &s->tensor[i].there.data, sizeof(void*));
    if (status) return said(status);
  }
  return NULL;
}

static void stage_matmul(staged* s, ptxb_matmul* p) {
  p->a = stage(s, p->a, false), p->b = stage(s, p->b, false);
  for (int i = 0; i < OPERANDS; ++i) {
    const ptxb_tensor** const place = place_of(p, i);
    *place = stage(s, *place, operand_rows[i].role_is == ROLE_greatest);
  }
  p->d = stage(s, p->d, true);
}

static void stage_contraction(staged* s, ptxb_contraction* p) {
  p->a = stage(s, p->a, false), p->b = stage(s, p->b, false), p->d = stage(s, p->d, true);
}

static void stage_convolution(staged* s, ptxb_convolution* p) {
  p->x = stage(s, p->x, p->result == PTXB_CONVOLUTION_X);
  p->w = stage(s, p->w, p->result == PTXB_CONVOLUTION_W);
  p->y = stage(s, p->y, p->result == PTXB_CONVOLUTION_Y);
  p->bias = stage(s, p->bias, false);
}

/* Stages the tensors of attention. If `runs` is false, they are staged for a gradient, which does not write
 * them. */
static void stage_attention(staged* s, ptxb_attention* p, bool runs) {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) p->name = stage(s, p->name, runs && is_written);
#include "kernels/attention/attention.def"
}

static void stage_gradient(staged* s, ptxb_attention_gradient* p) {
  p->grad = stage(s, p->grad, false);
  p->lse_grad = stage(s, p->lse_grad, false);
  p->dsinks = stage(s, p->dsinks, true);
  p->dq = stage(s, p->dq, true), p->dk = stage(s, p->dk, true), p->dv = stage(s, p->dv, true);
}

static void stage_rows(staged* s, operation* o) {
  for (size_t i = 0; i < o->rows.tensor_count; ++i)
    o->row_tensors[i] = stage(s, o->row_tensors[i], o->rows_written >> i & 1);
}

const char* host_run_staged(int device, const operation* o) {
  staged s = {0};
  const char* error = host_device(device, &s.device);
  const int64_t matrices = addresses_of(o);
  if (!error) error = make_room(&s, matrices);
  if (!error) error = enter(device);
  if (error) {
    let_go(&s);
    return error;
  }
  operation there = *o;
  if (o->kind == MATMUL)
    stage_matmul(&s, &there.matmul);
  else if (o->kind == CONTRACTION)
    stage_contraction(&s, &there.contraction);
  else if (o->kind == CONVOLUTION)
    stage_convolution(&s, &there.convolution);
  else if (o->kind == ROWS)
    stage_rows(&s, &there);
  else
    stage_attention(&s, &there.attention, o->kind == ATTENTION);
  if (o->kind == ATTENTION_GRADIENT) stage_gradient(&s, &there.gradient);
  if (matrices > 0) stage_matrices(&s, &o->matmul, matrices);
  void* workspace = NULL;
  size_t bytes = 0;
  error = place(&s);
  if (!error && matrices > 0) error = tell_addresses(&s, &there.matmul);
  if (!error) error = host_workspace(device, &there, &bytes);
  if (!error && bytes > 0) error = said(ptxb_allocate(s.device, bytes, &workspace));
  if (!error) error = host_run(device, &there, workspace, bytes, PTXB_OWN_STREAM);
  if (!error) error = wait_for(s.device, device);
  if (!error) error = copy_back(&s);
  if (workspace) (void)ptxb_free(s.device, workspace);
  let_go(&s);
  leave(device);
  return error;
}

/* Stages the tensors of the arguments, including those in structs. */
static void stage_all(staged* s, ptxb_argument* arguments, size_t count, const bool* written) {
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].fields)
      stage_all(s, (ptxb_argument*)arguments[i].fields, arguments[i].field_count, written);
    if (arguments[i].tensor) arguments[i].tensor = stage(s, arguments[i].tensor, written[s->count]);
  }
}

const char* host_launch_staged(host_program* program, int device, const uint32_t* grid,
                               ptxb_argument* arguments, size_t count, const bool* written) {
  staged s = {0};
  const char* error = host_device(device, &s.device);
  if (!error) error = make_room(&s, 0);
  if (!error) error = enter(device);
  if (error) {
    let_go(&s);
    return error;
  }
  stage_all(&s, arguments, count, written);
  error = place(&s);
  if (!error) error = host_launch(program, device, grid, arguments, count, PTXB_OWN_STREAM);
  if (!error) error = wait_for(s.device, device);
  if (!error) error = copy_back(&s);
  let_go(&s);
  leave(device);
  return error;
}
