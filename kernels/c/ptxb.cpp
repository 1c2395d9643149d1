// The C interface. Every function converts C structs to the library's own types.
#include "kernels/c/ptxb.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>

#include "kernels/c/attention.h"
#include "kernels/c/contraction.h"
#include "kernels/c/convolution.h"
#include "kernels/c/grown.h"
#include "kernels/c/product.h"
#include "kernels/c/ranks.h"
#include "kernels/c/report.h"
#include "kernels/c/rows.h"
#include "kernels/c/tensor.h"
#include "kernels/gemm/matmul.h"
#include "ptxbuilder/plan/sparse_matrix.h"
#include "ptxbuilder/sidecar.h"
#include "ptxbuilder/version.h"
#include "runtime/compile/load.h"
#include "runtime/interrupt.h"
#include "runtime/lazy.h"
#include "runtime/open_device.h"

using namespace ptxbuilder;
using namespace ptxbuilder::c;

// State that a device's handle and the handles of its kernels share.
struct Opened {
  explicit Opened(const char* name)
      : device(runtime::open_device(name, "sm_90a", {}, Where{})), ordinal(device->properties().ordinal) {}

  static uint64_t next_number() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }

  std::unique_ptr<runtime::Device> device;
  const uint64_t number = next_number();  // unique in the process; the numbers of closed devices are not
                                          // reused
  int ordinal;                            // the GPU's number; negative for the emulator

  kernels::Matmul& product() {
    return product_.get([&] { return kernels::Matmul(*device); });
  }
  kernels::Contraction& contraction() {
    return contraction_.get([&] { return kernels::Contraction(*device); });
  }
  kernels::Convolution& convolution() {
    return convolution_.get([&] { return kernels::Convolution(*device); });
  }
  kernels::Attention& attention() {
    return attention_.get([&] { return kernels::Attention(*device); });
  }
  kernels::AttentionGradient& attention_gradient() {
    return attention_gradient_.get([&] { return kernels::AttentionGradient(*device); });
  }
  kernels::Rows& rows() {
    return *rows_.get([&] { return std::make_unique<kernels::Rows>(*device); });
  }

  kernels::RankedProduct& ranked(kernels::RankedForm form) {
    return *ranked_[static_cast<size_t>(form)].get(
        [&] { return std::make_unique<kernels::RankedProduct>(*device, form); });
  }

  kernels::RankedNorm& ranked_norm() {
    return *ranked_norm_.get([&] { return std::make_unique<kernels::RankedNorm>(*device); });
  }

  kernels::RankedTokens& ranked_tokens() {
    return *ranked_tokens_.get([&] { return std::make_unique<kernels::RankedTokens>(*device); });
  }

  runtime::Address allocate(size_t bytes) {
    const runtime::Address address = device->allocate(bytes);
    const std::lock_guard lock(mutex_);
    allocated_.insert(address);
    return address;
  }
  void release(runtime::Address address) {
    {
      const std::lock_guard lock(mutex_);
      if (allocated_.erase(address) == 0)
        throw Error(fmt::format(
            "0x{:x} was not returned by ptxb_allocate() on this device, or is already freed", address));
    }
    device->release(address);
  }

 private:
  std::mutex mutex_;
  std::set<runtime::Address> allocated_;
  runtime::Lazy<kernels::Matmul> product_;
  runtime::Lazy<kernels::Contraction> contraction_;
  runtime::Lazy<kernels::Convolution> convolution_;
  runtime::Lazy<kernels::Attention> attention_;
  runtime::Lazy<kernels::AttentionGradient> attention_gradient_;
  runtime::Lazy<std::unique_ptr<kernels::Rows>> rows_;
  std::array<runtime::Lazy<std::unique_ptr<kernels::RankedProduct>>, 3> ranked_;  // one for each value of
                                                                                  // `scatters`
  runtime::Lazy<std::unique_ptr<kernels::RankedNorm>> ranked_norm_;
  runtime::Lazy<std::unique_ptr<kernels::RankedTokens>> ranked_tokens_;
};

// A handle holds null once it has been closed or freed. The handle itself, which takes a few words, is never
// deallocated, so that it can still be examined and its address is never reused.
struct ptxb_device {
  std::shared_ptr<Opened> opened;
  ptxb_device* given_back_before = nullptr;
};

struct Loaded {
  std::shared_ptr<Opened> opened;
  runtime::LoadedKernel kernel;
  std::string sidecar;
};
struct ptxb_kernel {
  std::unique_ptr<Loaded> loaded;
  ptxb_kernel* given_back_before = nullptr;
};

namespace {

// Freed handles form a list, so that leak checkers do not report them.
template <class Handle>
constinit std::atomic<Handle*> last_given_back = nullptr;

template <class Handle, class Held>
void give_back(Handle* handle, Held Handle::*held) {
  if (!handle || !(handle->*held)) return;
  (handle->*held).reset();
  handle->given_back_before = last_given_back<Handle>.exchange(handle);
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_given_back(const char* words) { throw Error(words); }

const std::shared_ptr<Opened>& shared_opened(ptxb_device* device) {
  const auto& opened = given(device, "the device").opened;
  if (!opened) refuse_given_back("the device was closed with ptxb_close()");
  return opened;
}
Opened& opened_of(ptxb_device* device) { return *shared_opened(device); }

Loaded& loaded_of(ptxb_kernel* kernel) {
  const auto& loaded = given(kernel, "the kernel").loaded;
  if (!loaded) refuse_given_back("the kernel was freed with ptxb_kernel_free()");
  return *loaded;
}

std::vector<std::string> words_between_commas(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) words.push_back(word);
  return words;
}

runtime::Stream stream_of(void* stream) {
  return stream == PTXB_OWN_STREAM ? runtime::Stream() : runtime::Stream(stream);
}

static_assert(PTXB_VERSION == PTXBUILDER_VERSION);

constinit thread_local LastProduct last_product;

const kernels::MatmulArguments& arguments_of(const Opened& opened, const ptxb_matmul* product,
                                             runtime::View workspace = {}, runtime::Stream stream = {}) {
  return last_product.read(given(product, "the product"), opened.number, opened.ordinal, workspace, stream);
}

// Converts an integer or float argument to bits of the parameter's type; returns the bits of any other scalar
// unchanged.
uint64_t bits_of(const Parameter& parameter, const ptxb_argument& from) {
  const DType type = parameter.dtype;
  const int bits = 8 * size_of(type);
  if (from.scalar == PTXB_INTEGER) {
    const auto value = static_cast<int64_t>(from.bits);
    const bool fits = is_integer(type) && (bits == 64        ? is_signed(type) || value >= 0
                                           : is_signed(type) ? value >> (bits - 1) == value >> 63
                                                             : value >> bits == 0);
    if (!fits)
      throw Error(fmt::format(
          "parameter '{}' has type {}, but the integer {} was given: {}", parameter.name, name(type), value,
          is_integer(type) ? "it does not fit" : "use ptxb_of_float() or ptxb_of_bits()"));
  }
  if (from.scalar == PTXB_REAL) {
    if (type != DType::f32 && type != DType::f64)
      throw Error(fmt::format("parameter '{}' has type {}, but a float was given: use {}", parameter.name,
                              name(type), is_integer(type) ? "ptxb_of_integer()" : "ptxb_of_bits()"));
    float value = 0;
    std::memcpy(&value, &from.bits, sizeof value);
    if (type == DType::f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return from.bits;
}

// Rejects an argument that sets fields that its kind does not use, since these fields would have no effect.
void check_form(const Parameter& parameter, const ptxb_argument& from) {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        fmt::format("parameter '{}': {}: begin with ptxb_of_tensor(), ptxb_of_struct() or one of the scalars",
                    parameter.name, what));
  };
  if (from.scalar < PTXB_BITS || from.scalar > PTXB_REAL)
    refuse(fmt::format("scalar is {}, which is not a ptxb_scalar", from.scalar));
  if (from.name && !*from.name) refuse("name is empty; use NULL for no name");
  if (!from.fields && from.field_count != 0)
    refuse(fmt::format("field_count is {}, but fields is NULL", from.field_count));
  if (from.tensor && from.fields) refuse("tensor and fields are both given");
  if ((from.tensor || from.fields) && (from.bits != 0 || from.scalar != PTXB_BITS))
    refuse(fmt::format("the bits of a scalar and a {} are both given", from.tensor ? "tensor" : "struct"));
}

runtime::Argument argument_of(const Parameter& parameter, const ptxb_argument& from, const Opened& opened) {
  check_form(parameter, from);
  const char* given = from.fields ? "a struct" : from.tensor ? "a tensor" : "a scalar";
  runtime::Argument to;
  if (parameter.kind == Parameter::Kind::structure) {
    if (!from.fields)
      throw Error(fmt::format("parameter '{}' takes a struct, but {} was given", parameter.name, given));
    if (from.field_count != parameter.fields.size())
      throw Error(fmt::format("parameter '{}' takes a struct of {} fields, but {} were given", parameter.name,
                              parameter.fields.size(), from.field_count));
    std::vector<runtime::Argument> fields;
    for (size_t i = 0; i < from.field_count; ++i)
      fields.push_back(argument_of(parameter.fields[i], from.fields[i], opened));
    to = runtime::structure(std::move(fields));
  } else if (parameter.kind == Parameter::Kind::scalar) {
    if (from.fields || from.tensor)
      throw Error(fmt::format("parameter '{}' is a scalar, but {} was given", parameter.name, given));
    to.dtype = parameter.dtype;
    to.bits = bits_of(parameter, from);
  } else {
    if (from.fields || !from.tensor)
      throw Error(fmt::format("parameter '{}' takes a tensor, but {} was given", parameter.name, given));
    const Placed t(parameter.name.c_str(), from.tensor, opened.ordinal);
    if (parameter.kind == Parameter::Kind::pointer) {
      // An LLVM module does not state what its pointers point to, so they are treated as pointers to bytes.
      to = runtime::pointer(t.memory(), parameter.dtype == DType::u8 ? DType::u8 : t.type);
    } else {
      const size_t rank = t.rank();
      if (rank > 0 && t.extent(rank - 1) > 1 && t.stride(rank - 1) != 1)
        throw Error(
            fmt::format("parameter '{}': the innermost dimension of a tensor map must have stride 1, not {}",
                        parameter.name, t.stride(rank - 1)));
      const runtime::View memory = t.memory();
      runtime::check_rank(rank);
      std::array<uint64_t, runtime::Argument::kMaxRank> shape, strides;  // innermost first
      for (size_t i = 0; i < rank; ++i) {
        const size_t from_outermost = rank - 1 - i;
        shape[i] = static_cast<uint64_t>(t.extent(from_outermost));
        if (i > 0) strides[i - 1] = static_cast<uint64_t>(t.stride(from_outermost) * size_of(t.type));
      }
      const bool is_tf32 = parameter.dtype == DType::tf32 && t.type == DType::f32;  // tf32 is f32 in memory
      to = runtime::tensor(memory, is_tf32 ? DType::tf32 : t.type, std::span(shape).first(rank),
                           std::span(strides).first(rank - 1));
    }
  }
  if (from.name) to.name = from.name;
  return to;
}

// Implements the functions that load a kernel; `load` loads the kernel onto the device.
template <class Load>
int loaded_by(ptxb_device* device, ptxb_kernel** loaded, Load&& load) {
  return status_of([&] {
    const auto& opened = shared_opened(device);
    given(loaded, "where to put the kernel");
    runtime::LoadedKernel kernel = load(*opened->device);
    std::string sidecar = to_json(kernel.signature());
    *loaded = new ptxb_kernel{std::make_unique<Loaded>(opened, std::move(kernel), std::move(sidecar))};
  });
}

}  // namespace

extern "C" {

int ptxb_version(void) { return PTXB_VERSION; }

int ptxb_open(const char* name, ptxb_device** device) {
  return status_of([&] {
    given(device, "where to put the device");
    *device = new ptxb_device{std::make_shared<Opened>(&given(name, "the device's name"))};
  });
}
void ptxb_close(ptxb_device* device) { give_back(device, &ptxb_device::opened); }

int ptxb_wait(ptxb_device* device, void* stream, int64_t milliseconds) {
  return status_of([&] {
    if (milliseconds < 0) throw Error(fmt::format("a wait of {} ms", milliseconds));
    opened_of(device).device->synchronize(stream_of(stream), std::chrono::milliseconds(milliseconds));
  });
}

void ptxb_interrupt_by(int (*is_interrupted)(void*), void* context) {
  if (is_interrupted)
    runtime::interrupt_by([=] { return is_interrupted(context) != 0; });
  else
    runtime::interrupt_by({});
}

int ptxb_allocate(ptxb_device* device, size_t bytes, void** address) {
  return status_of([&] {
    given(address, "where to put the address");
    *address = reinterpret_cast<void*>(opened_of(device).allocate(bytes));
  });
}
int ptxb_free(ptxb_device* device, void* address) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    if (address) opened.release(address_of(address));
  });
}
int ptxb_copy_in(ptxb_device* device, void* to, const void* from, size_t bytes) {
  return status_of([&] {
    if (bytes > 0) (void)given(static_cast<const char*>(from), "what is copied");
    opened_of(device).device->copy_in(address_of(to), from, bytes);
  });
}
int ptxb_copy_out(ptxb_device* device, void* to, const void* from, size_t bytes) {
  return status_of([&] {
    if (bytes > 0) (void)given(static_cast<char*>(to), "where to put the copy");
    opened_of(device).device->copy_out(to, address_of(from), bytes);
  });
}

int ptxb_compress_2_4(ptxb_dtype type, const void* dense, int64_t rows, int64_t columns, int64_t stride,
                      void* values, int32_t* metadata) {
  return status_of([&] {
    const SparseMatrix made =
        compress_2_4(dtype_of(type, "compress_2_4"), dense, rows, columns, stride, Where{});
    if (rows == 0 || columns == 0) return;
    std::ranges::copy(made.values, &given(static_cast<std::byte*>(values), "where to put the values"));
    std::ranges::copy(made.metadata, &given(metadata, "where to put the metadata"));
  });
}
int ptxb_decompress_2_4(ptxb_dtype type, const void* values, const int32_t* metadata, int64_t rows,
                        int64_t columns, void* dense) {
  return status_of([&] {
    SparseMatrix matrix = {dtype_of(type, "decompress_2_4"), rows, columns, {}, {}};
    if (rows > 0 && columns > 0) {
      const auto* from = &given(static_cast<const std::byte*>(values), "values");
      const int32_t* words = &given(metadata, "metadata");
      const MetadataShape shape = metadata_shape(rows, columns);
      matrix.values.assign(from, from + rows * columns / 2 * size_of(matrix.type));
      matrix.metadata.assign(words, words + shape.lines * shape.words);
    }
    const std::vector<std::byte> made = decompress_2_4(matrix, Where{});
    if (!made.empty())
      std::ranges::copy(made, &given(static_cast<std::byte*>(dense), "where to put the matrix"));
  });
}

int ptxb_matmul_workspace(ptxb_device* device, const ptxb_matmul* product, size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.product().workspace_bytes(arguments_of(opened, product), Where{});
  });
}

int ptxb_matmul_run(ptxb_device* device, const ptxb_matmul* product, void* workspace, size_t workspace_bytes,
                    void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    opened.product()(
        arguments_of(opened, product, {address_of(workspace), workspace_bytes}, stream_of(stream)), Where{});
  });
}

int ptxb_matmul_tune(ptxb_device* device, const ptxb_matmul* product, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    opened.product().tune(arguments_of(opened, product, {}, stream_of(stream)), Where{});
  });
}

int ptxb_contraction_workspace(ptxb_device* device, const ptxb_contraction* contraction, size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.contraction().workspace_bytes(
        read_contraction(given(contraction, "the contraction"), opened.ordinal), Where{});
  });
}

int ptxb_contraction_run(ptxb_device* device, const ptxb_contraction* contraction, void* workspace,
                         size_t workspace_bytes, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::ContractionArguments p = read_contraction(given(contraction, "the contraction"), opened.ordinal);
    p.workspace = {address_of(workspace), workspace_bytes};
    p.stream = stream_of(stream);
    opened.contraction()(p, Where{});
  });
}

int ptxb_contraction_explain(ptxb_device* device, const ptxb_contraction* contraction, const char** text) {
  return status_of([&] {
    thread_local std::string line;
    Opened& opened = opened_of(device);
    given(text, "where to put the text");
    line = opened.contraction().explain(
        read_contraction(given(contraction, "the contraction"), opened.ordinal), Where{});
    *text = line.c_str();
  });
}

int ptxb_convolution_workspace(ptxb_device* device, const ptxb_convolution* convolution, size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.convolution().workspace_bytes(
        read_convolution(given(convolution, "the convolution"), opened.ordinal), Where{});
  });
}

int ptxb_convolution_run(ptxb_device* device, const ptxb_convolution* convolution, void* workspace,
                         size_t workspace_bytes, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::ConvolutionArguments p = read_convolution(given(convolution, "the convolution"), opened.ordinal);
    p.workspace = {address_of(workspace), workspace_bytes};
    p.stream = stream_of(stream);
    opened.convolution()(p, Where{});
  });
}

int ptxb_attention_workspace(ptxb_device* device, const ptxb_attention* attention, size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.attention().workspace_bytes(
        read_attention(given(attention, "the attention"), opened.ordinal), Where{});
  });
}

int ptxb_attention_run(ptxb_device* device, const ptxb_attention* attention, void* workspace,
                       size_t workspace_bytes, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::AttentionArguments p = read_attention(given(attention, "the attention"), opened.ordinal);
    p.workspace = {address_of(workspace), workspace_bytes};
    p.stream = stream_of(stream);
    opened.attention()(p, Where{});
  });
}

int ptxb_attention_tune(ptxb_device* device, const ptxb_attention* attention, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::AttentionArguments p = read_attention(given(attention, "the attention"), opened.ordinal);
    p.stream = stream_of(stream);
    opened.attention().tune(p, Where{});
  });
}

int ptxb_attention_gradient_workspace(ptxb_device* device, const ptxb_attention_gradient* gradient,
                                      size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.attention_gradient().workspace_bytes(
        read_attention_gradient(given(gradient, "the gradient"), opened.ordinal), Where{});
  });
}

int ptxb_attention_gradient_run(ptxb_device* device, const ptxb_attention_gradient* gradient, void* workspace,
                                size_t workspace_bytes, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::AttentionGradientArguments p =
        read_attention_gradient(given(gradient, "the gradient"), opened.ordinal);
    p.workspace = {address_of(workspace), workspace_bytes};
    p.stream = stream_of(stream);
    opened.attention_gradient()(p, Where{});
  });
}

int ptxb_rows_workspace(ptxb_device* device, const ptxb_rows* rows, size_t* bytes) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    given(bytes, "where to put the bytes");
    *bytes = opened.rows().workspace_bytes(read_rows(given(rows, "the call"), opened.ordinal), Where{});
  });
}

int ptxb_rows_run(ptxb_device* device, const ptxb_rows* rows, void* workspace, size_t workspace_bytes,
                  void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    kernels::RowCall call = read_rows(given(rows, "the call"), opened.ordinal);
    call.workspace = {address_of(workspace), workspace_bytes};
    call.stream = stream_of(stream);
    opened.rows()(call, Where{});
  });
}

int ptxb_ranked_memory(ptxb_device* device, const ptxb_ranked* ranked, size_t* bytes) {
  return status_of([&] {
    const RankedCall call = read_ranked(given(ranked, "the call"), false, opened_of(device).ordinal);
    const kernels::RankedArguments& p = call.arguments;
    given(bytes, "where to put the bytes");
    *bytes = kernels::RankedProduct::memory_bytes(call.form, call.ranks, p.rows, p.n, p.k, p.type);
  });
}

int ptxb_ranked_run(ptxb_device* device, const ptxb_ranked* ranked, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    RankedCall call = read_ranked(given(ranked, "the call"), true, opened.ordinal);
    call.arguments.stream = stream_of(stream);
    opened.ranked(call.form)(call.arguments, Where{});
  });
}

int ptxb_ranked_norm_memory(ptxb_device* device, const ptxb_ranked_norm* norm, size_t* bytes) {
  return status_of([&] {
    const RankedNormCall call = read_ranked_norm(given(norm, "the call"), false, opened_of(device).ordinal);
    given(bytes, "where to put the bytes");
    *bytes = kernels::RankedNorm::memory_bytes(call.ranks, call.arguments.x.memory.bytes);
  });
}

int ptxb_ranked_norm_run(ptxb_device* device, const ptxb_ranked_norm* norm, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    RankedNormCall call = read_ranked_norm(given(norm, "the call"), true, opened.ordinal);
    call.arguments.stream = stream_of(stream);
    opened.ranked_norm()(call.arguments, Where{});
  });
}

int ptxb_ranked_tokens_memory(ptxb_device* device, const ptxb_ranked_tokens* tokens, size_t* bytes) {
  return status_of([&] {
    const RankedTokensCall call =
        read_ranked_tokens(given(tokens, "the call"), false, opened_of(device).ordinal);
    const kernels::RankedTokensArguments& p = call.arguments;
    given(bytes, "where to put the bytes");
    *bytes = kernels::RankedTokens::memory_bytes(call.ranks, p.experts, p.most_rows, p.row_bytes);
  });
}

int ptxb_ranked_tokens_run(ptxb_device* device, const ptxb_ranked_tokens* tokens, void* stream) {
  return status_of([&] {
    Opened& opened = opened_of(device);
    RankedTokensCall call = read_ranked_tokens(given(tokens, "the call"), true, opened.ordinal);
    call.arguments.stream = stream_of(stream);
    opened.ranked_tokens()(call.form, call.arguments, Where{});
  });
}

const char* ptxb_rows_table(void) { return rows_table().c_str(); }

int ptxb_load(ptxb_device* device, const char* path, const char* kernel, ptxb_kernel** loaded) {
  return loaded_by(device, loaded, [&](runtime::Device& on) {
    return runtime::LoadedKernel::from_file(on, &given(path, "the path"), kernel ? kernel : "", Where{});
  });
}

int ptxb_load_image(ptxb_device* device, const void* image, size_t bytes, const char* sidecar,
                    ptxb_kernel** loaded) {
  return loaded_by(device, loaded, [&](runtime::Device& on) {
    const auto* start = static_cast<const char*>(image);
    Signature signature = signature_from_json(&given(sidecar, "the sidecar"), "the sidecar");
    return runtime::LoadedKernel(on, std::string(&given(start, "the image"), bytes), std::move(signature),
                                 Where{});
  });
}

int ptxb_load_ir_with(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                      const ptxb_ir_options* options, ptxb_kernel** loaded) {
  return loaded_by(device, loaded, [&](runtime::Device& on) {
    const auto* start = static_cast<const char*>(ir);
    constexpr size_t kFirst = offsetof(ptxb_ir_options, ptx_version) + sizeof options->ptx_version;
    const ptxb_ir_options given_options =
        options ? grown(*options, PTXB_IR_OPTIONS_INIT, kFirst, "ptxb_ir_options", "PTXB_IR_OPTIONS_INIT")
                : ptxb_ir_options PTXB_IR_OPTIONS_INIT;
    const auto text = [](const char* words) { return std::string(words ? words : ""); };
    return load_ir(on, {&given(start, "the IR"), bytes}, "the IR", text(kernel),
                   {.target = text(given_options.target),
                    .ptx_version = given_options.ptx_version,
                    .libdevice = text(given_options.libdevice)},
                   {.waived = words_between_commas(text(given_options.waived))});
  });
}

int ptxb_load_ir(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                 ptxb_kernel** loaded) {
  return ptxb_load_ir_with(device, ir, bytes, kernel, NULL, loaded);
}

void ptxb_kernel_free(ptxb_kernel* kernel) { give_back(kernel, &ptxb_kernel::loaded); }
const char* ptxb_kernel_sidecar(const ptxb_kernel* kernel) {
  return kernel && kernel->loaded ? kernel->loaded->sidecar.c_str() : "";
}

int ptxb_launch(ptxb_kernel* kernel, const uint32_t grid[3], const ptxb_argument* arguments, size_t count,
                void* stream) {
  return status_of([&] {
    Loaded& k = loaded_of(kernel);
    const Signature& signature = k.kernel.signature();
    if (count != signature.parameters.size())
      throw Error(fmt::format("kernel '{}' takes {} arguments, but {} were given", signature.kernel,
                              signature.parameters.size(), count));
    if (count > 0) given(arguments, "the list of arguments");
    runtime::ArgumentList all(count);
    for (size_t i = 0; i < count; ++i)
      all.add([&] { return argument_of(signature.parameters[i], arguments[i], *k.opened); });
    const runtime::Dim3 ctas = grid ? runtime::Dim3{grid[0], grid[1], grid[2]} : runtime::Dim3{0, 0, 0};
    k.kernel.launch({.grid = ctas, .stream = stream_of(stream)}, all, Where{});
  });
}

}  // extern "C"
