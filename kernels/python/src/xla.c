#include "kernels/python/src/xla.h"

#include <string.h>

#include "kernels/python/src/ffi.h"

/* Runs an operation. If the call has more results than `results`, its last result is the workspace. */
static const char* run(const ffi_call* call, const ffi_target* to, const operation* o, int64_t results) {
  if (to->device == EMULATOR) return host_run_staged(EMULATOR, o);
  const ffi_buffer* workspace = call->results.count > results ? call->results.all[results] : NULL;
  return host_run(to->device, o, workspace ? workspace->data : NULL,
                  workspace ? (size_t)workspace->dims[0] : 0, to->stream);
}

static const char* check_counts(const ffi_call* call, int64_t arguments, int64_t results) {
  if (call->arguments.count == arguments &&
      (call->results.count == results || call->results.count == results + 1))
    return NULL;
  return host_words("%d arguments and %d results, expected %d and %d, or one more for a workspace",
                    (int)call->arguments.count, (int)call->results.count, (int)arguments, (int)results);
}

/* Reads the attribute `scale`, which holds `reals` float32 numbers, and the attribute `numbers`, which holds
 * `integers` int64 numbers. */
static const char* read_numbers(const ffi_call* call, size_t reals, size_t integers, const float** scale,
                                const int64_t** numbers) {
  const ffi_array *floats, *ints;
  const char* error = ffi_array_of(call, "scale", FFI_F32, &floats);
  if (!error) error = ffi_array_of(call, "numbers", FFI_S64, &ints);
  if (error) return error;
  if (floats->size != reals || ints->size != integers)
    return "attributes `scale` and `numbers` have a wrong number of elements";
  *scale = floats->data, *numbers = ints->data;
  return NULL;
}

/* ---- The product ---- */

/* Reads the operands that the flags select from `in`. An operand that is written is the second result. With
 * add_to_rows, C is the first element of `in` and shares the memory of D, to which rows are added. */
static int64_t read_operands(const ffi_call* call, int64_t flags, ptxb_tensor* in, ptxb_tensor* written,
                             int64_t* results, ptxb_matmul* p) {
  int64_t count = 0;
  for (int i = 0; i < OPERANDS; ++i) {
    if (!(flags & (int64_t)HAS_OPERAND << i)) continue;
    const ptxb_tensor** const place = place_of(p, i);
    *place = &in[count++];
    if (operand_rows[i].role_is != ROLE_greatest) continue;
    *results = 2;
    if (call->results.count > 1) *written = ffi_tensor_of(call->results.all[1]), *place = written;
  }
  p->use = flags & GATE ? PTXB_GATE : p->inputs ? PTXB_SLOPE : PTXB_VALUE;
  if (p->add_to_rows) p->c = NULL;
  return count;
}

static const char* matmul(const ffi_call* call, const ffi_target* to) {
  const float* scale;
  const int64_t* numbers;
  const char* error = read_numbers(call, 2, 2, &scale, &numbers);
  if (error) return error;
  const int64_t flags = numbers[1];
  const ptxb_matmul init = PTXB_MATMUL_INIT;
  operation o = {.kind = MATMUL, .matmul = init};
  ptxb_matmul* p = &o.matmul;
  ptxb_tensor in[2 + OPERANDS], d, written;
  int64_t results = 1;
  const int64_t count = 2 + read_operands(call, flags, &in[2], &written, &results, p);
  error = check_counts(call, count, results);
  if (error) return error;
  d = ffi_tensor_of(call->results.all[0]);
  int64_t shape[2][MOST_RANK], strides[2][MOST_RANK];
  for (int64_t i = 0; i < count; ++i) in[i] = ffi_tensor_of(call->arguments.all[i]);
  if (p->add_to_rows && (count < 3 || in[2].data != d.data))
    return "add_to_rows: rows are added to C, but the result is not in its memory";
  for (int i = 0; i < 2; ++i) {
    if (!(flags & (i ? TRANSPOSE_B : TRANSPOSE_A))) continue;
    const int rank = in[i].ndim;
    if (rank < 2 || rank > MOST_RANK) return host_words("%c: %d dimensions", "AB"[i], rank);
    swapped(&in[i], rank - 2, rank - 1, shape[i], strides[i]);
  }
  p->a = &in[0], p->b = &in[1], p->d = &d;
  p->alpha = scale[0], p->beta = scale[1];
  p->activation = (int32_t)numbers[0];
  p->tf32 = !!(flags & TF32), p->precise = !!(flags & PRECISE), p->packed_form = flags >> PACKED_FORM;
  return run(call, to, &o, results);
}

void* xla_matmul_cpu(void* call) { return ffi_on_cpu(call, matmul); }
void* xla_matmul_cuda(void* call) { return ffi_on_cuda(call, matmul, true); }

/* ---- Attention ---- */

/* Reads the numbers and flags of attention, but not the tensors. */
static const char* read_attention(const ffi_call* call, ptxb_attention* p, int64_t* flags) {
  enum {
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) AT_##name,
#include "kernels/attention/attention.def"
    REALS
  };
  enum {
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) AT_##name,
#include "kernels/attention/attention.def"
    AT_flags,
    INTEGERS
  };
  const float* scale;
  const int64_t* numbers;
  const char* error = read_numbers(call, REALS, INTEGERS, &scale, &numbers);
  if (error) return error;
  const ptxb_attention init = PTXB_ATTENTION_INIT;
  *p = init;
  *flags = numbers[AT_flags];
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) p->name = scale[AT_##name];
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) p->name = numbers[AT_##name];
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) p->name = !!(*flags & BIT);
#include "kernels/attention/attention.def"
  return NULL;
}

enum { MOST_HEADS = 8 }; /* the most tensors in a call that have heads */
typedef struct heads_room {
  int64_t shape[MOST_HEADS][MOST_RANK], strides[MOST_HEADS][MOST_RANK];
} heads_room;
static const char* lay(ptxb_tensor* const* heads, const char* const* names, int count, int64_t flags,
                       heads_room* room) {
  for (int i = 0; flags & HEADS_FIRST && i < count; ++i) {
    if (heads[i]->ndim != 4) return host_words("%s: %d dimensions", names[i], heads[i]->ndim);
    swapped(heads[i], 1, 2, room->shape[i], room->strides[i]);
  }
  return NULL;
}

/* Reads the operands that the flags select, beginning at `in`, and returns their number. */
static int64_t read_further(ptxb_attention* p, int64_t flags, const ptxb_tensor* in) {
  int64_t at = 0;
  if (flags & PACKED) p->query_offsets = &in[at++];
  if (flags & PACKED && !(flags & HAS_KEY_LENGTHS)) p->key_offsets = &in[at++];
  if (flags & HAS_SINKS) p->sinks = &in[at++];
  if (flags & HAS_DROPOUT_SEED) p->dropout_seed = &in[at++];
  if (flags & HAS_KEY_LENGTHS) p->key_lengths = &in[at++];
  if (flags & HAS_BLOCK_TABLE) p->block_table = &in[at++];
  if (flags & HAS_K_SCALE) p->k_scale = &in[at++];
  if (flags & HAS_V_SCALE) p->v_scale = &in[at++];
  if (flags & HAS_Q_SCALE) p->q_scale = &in[at++];
  if (flags & HAS_TREE_MASK) p->tree_mask = &in[at++];
  return at;
}
enum { MOST_FURTHER = 10 };

static const char* attention(const ffi_call* call, const ffi_target* to) {
  operation o = {.kind = ATTENTION};
  ptxb_attention* p = &o.attention;
  int64_t flags;
  const char* error = read_attention(call, p, &flags);
  if (error) return error;
  ptxb_tensor in[3 + MOST_FURTHER];
  const int64_t results = 1 + !!(flags & HAS_LSE), further = read_further(p, flags, &in[3]);
  error = check_counts(call, 3 + further, results);
  if (error) return error;
  ptxb_tensor o_and_lse[2], *const heads[] = {&in[0], &in[1], &in[2], &o_and_lse[0]};
  static const char* const names[] = {"Q", "K", "V", "O"};
  heads_room room;
  for (int64_t i = 0; i < call->arguments.count; ++i) in[i] = ffi_tensor_of(call->arguments.all[i]);
  for (int64_t i = 0; i < results; ++i) o_and_lse[i] = ffi_tensor_of(call->results.all[i]);
  error = lay(heads, names, 4, flags, &room);
  if (error) return error;
  p->q = &in[0], p->k = &in[1], p->v = &in[2], p->o = &o_and_lse[0];
  if (flags & HAS_LSE) p->lse = &o_and_lse[1];
  return run(call, to, &o, results);
}

static const char* attention_gradient(const ffi_call* call, const ffi_target* to) {
  enum {
    Q,
    K,
    V,
    O,
    LSE,
    GRAD,
    REQUIRED,
    MOST = REQUIRED + MOST_FURTHER + 1,
    DQ = 0,
    DK,
    DV,
    DSINKS,
    MOST_RESULTS
  };
  const ptxb_attention_gradient init = PTXB_ATTENTION_GRADIENT_INIT;
  operation o = {.kind = ATTENTION_GRADIENT, .gradient = init};
  ptxb_attention* p = &o.attention;
  int64_t flags;
  const char* error = read_attention(call, p, &flags);
  if (error) return error;
  ptxb_tensor in[MOST];
  const int64_t further = read_further(p, flags, &in[REQUIRED]),
                count = REQUIRED + further + !!(flags & HAS_LSE),
                results = flags & HAS_SINKS ? MOST_RESULTS : DSINKS;
  error = check_counts(call, count, results);
  if (error) return error;
  ptxb_tensor out[MOST_RESULTS], *const heads[] = {&in[Q],    &in[K],   &in[V],   &in[O],
                                                   &in[GRAD], &out[DQ], &out[DK], &out[DV]};
  static const char* const names[] = {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"};
  heads_room room;
  for (int64_t i = 0; i < count; ++i) in[i] = ffi_tensor_of(call->arguments.all[i]);
  for (int64_t i = 0; i < results; ++i) out[i] = ffi_tensor_of(call->results.all[i]);
  error = lay(heads, names, MOST_HEADS, flags, &room);
  if (error) return error;
  p->q = &in[Q], p->k = &in[K], p->v = &in[V], p->o = &in[O], p->lse = &in[LSE];
  o.gradient.deterministic = flags & DETERMINISTIC;
  if (flags & HAS_LSE) o.gradient.lse_grad = &in[REQUIRED + further];
  if (flags & HAS_SINKS) o.gradient.dsinks = &out[DSINKS];
  o.gradient.grad = &in[GRAD], o.gradient.dq = &out[DQ], o.gradient.dk = &out[DK], o.gradient.dv = &out[DV];
  return run(call, to, &o, results);
}

void* xla_attention_cpu(void* call) { return ffi_on_cpu(call, attention); }
void* xla_attention_cuda(void* call) { return ffi_on_cuda(call, attention, true); }
void* xla_attention_gradient_cpu(void* call) { return ffi_on_cpu(call, attention_gradient); }
void* xla_attention_gradient_cuda(void* call) { return ffi_on_cuda(call, attention_gradient, true); }

/* ---- Convolution ---- */

static const char* convolution(const ffi_call* call, const ffi_target* to) {
  enum {
    RESULT,
    ACTIVATION,
    FLAGS,
    STEP,
    BEFORE = STEP + 2,
    BEHIND = BEFORE + 2,
    SPREAD = BEHIND + 2,
    GROUPS = SPREAD + 2,
    INTEGERS
  };
  const float* scale;
  const int64_t* numbers;
  const char* error = read_numbers(call, 0, INTEGERS, &scale, &numbers);
  const bool has_bias = call->arguments.count > 2;
  if (!error) error = check_counts(call, has_bias ? 3 : 2, 1);
  if (error) return error;
  if (numbers[RESULT] < PTXB_CONVOLUTION_Y || numbers[RESULT] > PTXB_CONVOLUTION_W)
    return host_words("the result is %d; it must be 0 to 2", (int)numbers[RESULT]);
  const ptxb_convolution init = PTXB_CONVOLUTION_INIT;
  operation o = {.kind = CONVOLUTION, .convolution = init};
  ptxb_convolution* p = &o.convolution;
  p->result = (int32_t)numbers[RESULT], p->activation = (int32_t)numbers[ACTIVATION];
  p->tf32 = !!(numbers[FLAGS] & TF32), p->precise = !!(numbers[FLAGS] & PRECISE);
  for (int d = 0; d < 2; ++d)
    p->step[d] = numbers[STEP + d], p->before[d] = numbers[BEFORE + d], p->behind[d] = numbers[BEHIND + d],
    p->spread[d] = numbers[SPREAD + d];
  p->groups = numbers[GROUPS];
  ptxb_tensor all[4];
  const ptxb_tensor** const places[] = {&p->y, &p->x, &p->w}; /* in the order of their numbers */
  static const int in_order[] = {PTXB_CONVOLUTION_X, PTXB_CONVOLUTION_W, PTXB_CONVOLUTION_Y};
  int64_t argument = 0;
  for (int i = 0; i < 3; ++i) {
    all[i] = ffi_tensor_of(in_order[i] == p->result ? call->results.all[0] : call->arguments.all[argument++]);
    *places[in_order[i]] = &all[i];
  }
  if (has_bias) all[3] = ffi_tensor_of(call->arguments.all[2]), p->bias = &all[3];
  return run(call, to, &o, 1);
}

void* xla_convolution_cpu(void* call) { return ffi_on_cpu(call, convolution); }
void* xla_convolution_cuda(void* call) { return ffi_on_cuda(call, convolution, true); }

/* ---- Rows ---- */

static const char* rows(const ffi_call* call, const ffi_target* to) {
  const ffi_text* name;
  const float* reals;
  const int64_t* numbers;
  const ffi_array* scale;
  const char* error = ffi_text_of(call, "operation", &name);
  if (!error) error = ffi_array_of(call, "scale", FFI_F32, &scale);
  if (!error) error = read_numbers(call, scale->size, 4, &reals, &numbers);
  if (error) return error;
  const ptxb_rows init = PTXB_ROWS_INIT;
  operation o = {.kind = ROWS, .rows = init, .rows_written = (unsigned long)numbers[2]};
  char words[64];
  if (name->size >= sizeof words) return "attribute `operation` has more than 63 bytes";
  memcpy(words, name->data, name->size);
  words[name->size] = 0;
  o.rows.operation = words, o.rows.numbers = reals, o.rows.number_count = scale->size;
  if (numbers[0] < 0 || numbers[0] > MOST_ROW_TENSORS) return host_words("%d tensors", (int)numbers[0]);
  o.rows.tensor_count = (size_t)numbers[0];
  ptxb_tensor all[MOST_ROW_TENSORS];
  int64_t arguments = 0, results = 0;
  for (int64_t i = 0; i < numbers[0]; ++i) {
    o.row_tensors[i] = NULL;
    if (!(numbers[1] >> i & 1)) continue;
    const bool is_written = numbers[2] >> i & 1;
    const ffi_buffers* from = is_written ? &call->results : &call->arguments;
    const int64_t at = is_written ? results++ : arguments++;
    if (at >= from->count) return host_words("there is no buffer %d", (int)at);
    all[i] = ffi_tensor_of(from->all[at]);
    if (numbers[3] >> i & 1) { /* the argument and the result share memory */
      if (arguments >= call->arguments.count) return host_words("there is no argument %d", (int)arguments);
      if (ffi_tensor_of(call->arguments.all[arguments++]).data != all[i].data)
        return host_words("tensor %d is updated, but its result is in different memory", (int)i);
    }
    o.row_tensors[i] = &all[i];
  }
  error = check_counts(call, arguments, results);
  return error ? error : run(call, to, &o, results);
}

void* xla_rows_cpu(void* call) { return ffi_on_cpu(call, rows); }
void* xla_rows_cuda(void* call) { return ffi_on_cuda(call, rows, true); }
