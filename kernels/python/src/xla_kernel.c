/* The XLA handler that launches any kernel that has a sidecar. */
#include <string.h>

#include "kernels/python/src/ffi.h"
#include "kernels/python/src/xla.h"

typedef struct reading {
  const ffi_call* call;
  const ffi_target* to;
  const int64_t *next, *end;
  ptxb_tensor tensors[MOST_OPERANDS];
  bool written[MOST_OPERANDS];
  ptxb_argument arguments[2 * MOST_OPERANDS];
  size_t tensor_count, argument_count;
} reading;

/* Reads a scalar from an array without dimensions, on the device of the call. */
static const char* read_scalar(const reading* r, int64_t kind, int64_t number, ptxb_argument* to) {
  if (number < 0 || number >= r->call->arguments.count)
    return host_words("there is no buffer %d", (int)number);
  const ptxb_tensor t = ffi_tensor_of(r->call->arguments.all[number]);
  const int size = t.dtype.bits;
  if (size == 0 || t.ndim != 0)
    return "a scalar must be an array without dimensions, of integers or of floats";
  uint64_t bits = 0;
  if (r->to->device == EMULATOR) {
    memcpy(&bits, t.data, (size_t)size / 8);
  } else {
    const char* error = host_read(r->to->device, r->to->stream, &bits, t.data, (size_t)size / 8);
    if (error) return host_words("a scalar in the GPU's memory, for which the call waits: %s", error);
  }
  if (kind == XLA_BITS_AT) {
    *to = ptxb_of_bits(bits);
    return NULL;
  }
  const bool is_signed = t.dtype.code == PTXB_INT;
  if (!is_signed && bits > INT64_MAX)
    return host_words("a scalar is %llu; it must be less than 2^63", (unsigned long long)bits);
  *to = ptxb_of_integer(is_signed ? (int64_t)(bits << (64 - size)) >> (64 - size) : (int64_t)bits);
  return NULL;
}

static const char* read_arguments(reading* r, size_t count, ptxb_argument** first) {
  ptxb_argument* const to = *first = r->arguments + r->argument_count;
  if (count > 2 * MOST_OPERANDS - r->argument_count) return "the kernel has too many arguments";
  r->argument_count += count;
  for (size_t i = 0; i < count; ++i) {
    if (r->end - r->next < 2) return "attribute `arguments` ends too soon";
    const int64_t kind = *r->next++, value = *r->next++;
    if (kind == XLA_ARGUMENT || kind == XLA_RESULT) {
      const ffi_buffers* from = kind == XLA_RESULT ? &r->call->results : &r->call->arguments;
      if (value < 0 || value >= from->count) return host_words("there is no buffer %d", (int)value);
      if (r->tensor_count == MOST_OPERANDS) return "the kernel has too many tensors";
      ptxb_tensor* t = &r->tensors[r->tensor_count];
      r->written[r->tensor_count++] = kind == XLA_RESULT;
      *t = ffi_tensor_of(from->all[value]);
      to[i] = ptxb_of_tensor(t);
    } else if (kind == XLA_BITS) {
      to[i] = ptxb_of_bits((uint64_t)value);
    } else if (kind == XLA_INTEGER) {
      to[i] = ptxb_of_integer(value);
    } else if (kind == XLA_BITS_AT || kind == XLA_INTEGER_AT) {
      const char* error = read_scalar(r, kind, value, &to[i]);
      if (error) return error;
    } else if (kind == XLA_STRUCT && value >= 0) {
      ptxb_argument* fields;
      const char* error = read_arguments(r, (size_t)value, &fields);
      if (error) return error;
      to[i] = ptxb_of_struct(fields, (size_t)value);
    } else {
      return host_words("an argument has the unknown kind %d", (int)kind);
    }
  }
  return NULL;
}

static const char* kernel(const ffi_call* call, const ffi_target* to) {
  const ffi_array *grid, *encoded;
  const ffi_text* program_words;
  const char* error = ffi_text_of(call, "program", &program_words);
  if (!error) error = ffi_array_of(call, "grid", FFI_S64, &grid);
  if (!error) error = ffi_array_of(call, "arguments", FFI_S64, &encoded);
  if (error) return error;
  char path[4096];
  if (program_words->size >= sizeof path) return "a path of more than 4095 bytes";
  memcpy(path, program_words->data, program_words->size);
  path[program_words->size] = 0;
  char* name = strchr(path, '\n');
  if (!name) return "attribute `program` has no line feed";
  *name++ = 0;
  char* waived = strchr(name, '\n'); /* older files lack this line */
  if (waived) *waived++ = 0;
  host_program* program;
  error = host_program_of(path, name, waived ? waived : "", &program);
  if (error) return error;

  uint32_t ctas[3];
  if (grid->size != 0 && grid->size != 3) return "attribute `grid` must have three elements or none";
  for (size_t i = 0; i < grid->size; ++i) {
    const int64_t count = ((const int64_t*)grid->data)[i];
    if (count < 0 || count > UINT32_MAX) return host_words("a grid of %lld CTAs", (long long)count);
    ctas[i] = (uint32_t)count;
  }
  reading r;
  r.call = call, r.to = to;
  r.next = encoded->data, r.end = r.next + encoded->size;
  r.tensor_count = r.argument_count = 0;
  if (encoded->size < 2 || r.next[0] != XLA_STRUCT) return "attribute `arguments` is one struct";
  const size_t count = (size_t)r.next[1];
  r.next += 2;
  ptxb_argument* all;
  error = read_arguments(&r, count, &all);
  if (error) return error;
  const uint32_t* by = grid->size ? ctas : NULL;
  return to->device == EMULATOR ? host_launch_staged(program, EMULATOR, by, all, count, r.written)
                                : host_launch(program, to->device, by, all, count, to->stream);
}

void* xla_kernel_cpu(void* call) { return ffi_on_cpu(call, kernel); }
void* xla_kernel_cuda(void* call) { return ffi_on_cuda(call, kernel, true); }
void* xla_kernel_waits_cuda(void* call) { return ffi_on_cuda(call, kernel, false); }
