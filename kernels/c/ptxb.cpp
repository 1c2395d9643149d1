// The C interface: every function turns what C has into the library's own types, and an exception into a
// status.
#include "kernels/c/ptxb.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "kernels/gemm/matmul.h"
#include "ptxbuilder/sidecar.h"
#include "ptxbuilder/version.h"
#include "runtime/open_device.h"

using namespace ptxbuilder;

// Shared by the handle of the device and those of its kernels.
struct Opened {
  explicit Opened(const char* name)
      : device(runtime::open_device(name, "sm_90a", {}, Where{})), ordinal(device->properties().ordinal) {}

  std::unique_ptr<runtime::Device> device;
  int ordinal;  // of the GPU; below 0 for the emulator
  std::once_flag made;
  std::optional<kernels::Matmul> matmul;
  std::atomic<kernels::Matmul*> ready = nullptr;  // std::call_once alone takes some 20 ns each time

  kernels::Matmul& product() {
    if (kernels::Matmul* known = ready.load(std::memory_order_acquire)) return *known;
    std::call_once(made, [&] { ready.store(&matmul.emplace(*device), std::memory_order_release); });
    return *matmul;
  }
};

struct ptxb_device {
  std::shared_ptr<Opened> opened;
};

struct ptxb_kernel {
  std::shared_ptr<Opened> opened;
  runtime::LoadedKernel kernel;
  std::string sidecar;
};

namespace {

thread_local std::string last_error;

// The errors below name what is wrong; the caller's line in C is not known.
template <class Body>
int status_of(Body&& body) noexcept {
  try {
    last_error.clear();
    const AuthorsCode no_line;
    body();
    return PTXB_OK;
  } catch (const runtime::TimeoutError& e) {
    last_error = e.what();
    return PTXB_TIMEOUT;
  } catch (const std::exception& e) {
    last_error = e.what();
  } catch (...) {
    last_error = "an exception that is no std::exception";
  }
  return PTXB_ERROR;
}

template <class T>
T& given(T* pointer, const char* what) {
  if (!pointer) throw Error(fmt::format("{} is NULL", what));
  return *pointer;
}

runtime::Stream stream_of(void* stream) {
  return stream == PTXB_OWN_STREAM ? runtime::Stream() : runtime::Stream(stream);
}

runtime::Address address_of(const void* pointer) { return reinterpret_cast<runtime::Address>(pointer); }

std::string text(ptxb_dtype t) { return fmt::format("code {}, {} bits, {} lanes", t.code, t.bits, t.lanes); }

DType dtype_of(ptxb_dtype t, const char* name) {
  auto key = [](int code, int bits, int lanes = 1) { return lanes << 16 | bits << 8 | code; };
  switch (key(t.code, t.bits, t.lanes)) {
    case key(PTXB_UINT, 8):
      return DType::u8;
    case key(PTXB_INT, 8):
      return DType::s8;
    case key(PTXB_UINT, 16):
      return DType::u16;
    case key(PTXB_INT, 16):
      return DType::s16;
    case key(PTXB_UINT, 32):
      return DType::u32;
    case key(PTXB_INT, 32):
      return DType::s32;
    case key(PTXB_UINT, 64):
      return DType::u64;
    case key(PTXB_INT, 64):
      return DType::s64;
    case key(PTXB_FLOAT, 16):
      return DType::f16;
    case key(PTXB_BFLOAT, 16):
      return DType::bf16;
    case key(PTXB_FLOAT, 32):
      return DType::f32;
    case key(PTXB_FLOAT, 64):
      return DType::f64;
    case key(PTXB_E4M3, 8):
      return DType::e4m3;
    case key(PTXB_E5M2, 8):
      return DType::e5m2;
  }
  throw Error(fmt::format("{}: a tensor of a type that is not supported: {}", name, text(t)));
}

// A tensor whose place and extents are sound.
struct Placed {
  const char* name;
  const ptxb_tensor& tensor;
  DType type;

  Placed(const char* the_name, const ptxb_tensor* the_tensor, const Opened& opened)
      : name(the_name), tensor(given(the_tensor, the_name)), type(dtype_of(tensor.dtype, name)) {
    const int32_t place = tensor.device.type, number = opened.ordinal;
    constexpr int32_t kCuda = 2, kCudaManaged = 13;  // DLDeviceType
    if (place != 0 && number < 0)
      throw Error(
          fmt::format("{}: its memory is on a device of type {}, but the emulator has memory of its own: "
                      "ptxb_allocate() and ptxb_copy_in()",
                      name, place));
    if (place != 0 && ((place != kCuda && place != kCudaManaged) || tensor.device.id != number))
      throw Error(fmt::format(
          "{}: its memory is on device {} of type {}, but the product's device is GPU {} (type 2)", name,
          tensor.device.id, place, number));
    if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape))
      throw Error(fmt::format("{}: {} dimensions, without a shape", name, tensor.ndim));
    for (size_t i = rank(); i-- > 0;)
      if (extent(i) < 0 || stride(i) < 0)
        throw Error(fmt::format("{}: dimension {} has {} elements and stride {}; neither may be negative",
                                name, i, extent(i), stride(i)));
  }

  size_t rank() const { return static_cast<size_t>(tensor.ndim); }
  int64_t extent(size_t i) const { return tensor.shape[i]; }
  // Elements. C may leave them out, and then there are no gaps.
  int64_t stride(size_t i) const {
    if (tensor.strides) return tensor.strides[i];
    int64_t compact = 1;
    for (size_t inner = rank(); --inner > i;) compact *= extent(inner);
    return compact;
  }

  // From the first element to the last.
  runtime::View memory() const {
    Wide last = 0;
    for (size_t i = 0; i < rank(); ++i) {
      if (extent(i) == 0) return {address(), 0};
      last += Wide{extent(i) - 1} * stride(i);
    }
    return up_to(last);
  }

 protected:
  using Wide = __int128;  // of products of extents and strides
  runtime::Address address() const { return address_of(tensor.data) + tensor.byte_offset; }
  runtime::View up_to(Wide last_element) const {
    const Wide bytes = (last_element + 1) * size_of(type);
    if (bytes >> 48) throw Error(fmt::format("{}: it spans more than 2^48 bytes", name));
    return {address(), static_cast<size_t>(bytes)};
  }
};

// A matrix of a product: its dimensions behind those of batches, which are one or none. A dimension of one
// element has no stride.
struct Matrix : Placed {
  Matrix(const char* the_name, const ptxb_tensor* the_tensor, const Opened& opened)
      : Placed(the_name, the_tensor, opened) {
    const size_t all = rank();
    if (all != 2 && all != 3)
      throw Error(fmt::format("{}: {} dimensions; a matrix has 2, or 3 with batches in front", name, all));
    rows = extent(all - 2), columns = extent(all - 1);
    row_stride = rows > 1 ? stride(all - 2) : 0, column_stride = columns > 1 ? stride(all - 1) : 0;
    if (all == 3) batches = extent(0), batch_stride = batches > 1 ? stride(0) : 0;
  }

  int64_t batches = 1, rows, columns;
  int64_t batch_stride = 0, row_stride, column_stride;

  // As lines that lie along the columns or along the rows: whether they do.
  bool along_columns() const { return columns <= 1 || column_stride == 1; }
  bool along_rows() const { return rows <= 1 || row_stride == 1; }

  kernels::DeviceMatrix as_lines(bool of_rows) const {
    const int64_t apart = of_rows ? row_stride : column_stride, lines = of_rows ? rows : columns,
                  length = of_rows ? columns : rows;
    if (lines > 1 && apart < length)
      throw Error(fmt::format("{}: {} are {} elements apart, but have {}: make it contiguous", name,
                              of_rows ? "rows" : "columns", apart, length));
    if (batches > 1 && batch_stride < 1)
      throw Error(fmt::format("{}: batches are {} elements apart, but have 1: make it contiguous", name,
                              batch_stride));
    return {.memory = memory(), .type = type, .stride = apart, .batch_stride = batch_stride};
  }

 private:
  runtime::View memory() const {
    if (rows == 0 || columns == 0 || batches == 0) return {address(), 0};
    return up_to(Wide{rows - 1} * row_stride + Wide{columns - 1} * column_stride +
                 Wide{batches - 1} * batch_stride);
  }
};

kernels::MatmulArguments arguments_of(Opened& opened, const ptxb_matmul* product) {
  const ptxb_matmul& p = given(product, "the product");
  if (p.size != sizeof(ptxb_matmul))
    throw Error(
        fmt::format("a ptxb_matmul of {} bytes, but this library's has {}: set its size by "
                    "PTXB_MATMUL_INIT, and build with the header of version {}",
                    p.size, sizeof(ptxb_matmul), ptxb_version()));
  const Matrix a("A", p.a, opened), b("B", p.b, opened), d("D", p.d, opened);
  kernels::MatmulArguments q;
  q.m = d.rows, q.n = d.columns, q.k = a.columns, q.batches = d.batches;
  auto expect = [&](const Matrix& x, int64_t rows, int64_t columns, const char* names) {
    if (x.rows != rows || x.columns != columns || x.batches != q.batches)
      throw Error(fmt::format("{}: {} batches of {} x {}, but D and A make {} {} of {} x {}", x.name,
                              x.batches, x.rows, x.columns, names, q.batches, rows, columns));
  };
  expect(a, q.m, q.k, "[m,k]");
  expect(b, q.k, q.n, "[k,n]");
  q.a_k_major = a.along_columns();
  q.b_k_major = b.along_rows();
  for (const Matrix* x : {&a, &b})
    if (!x->along_columns() && !x->along_rows())
      throw Error(fmt::format("{}: its strides are {} and {}, and one of them has to be 1", x->name,
                              x->row_stride, x->column_stride));
  q.a = a.as_lines(q.a_k_major);
  q.b = b.as_lines(!q.b_k_major);
  auto output = [&](const Matrix& x) {
    if (!x.along_columns())
      throw Error(
          fmt::format("{}: its columns are {} elements apart, and have to be 1: compute the transposed "
                      "product, B^T A^T",
                      x.name, x.column_stride));
    return x.as_lines(true);
  };
  q.d = output(d);
  if (p.c) {
    const Matrix c("C", p.c, opened);
    expect(c, q.m, q.n, "[m,n]");
    q.c = output(c);
  } else if (p.beta != 0) {
    throw Error(fmt::format("beta is {}, but C is NULL", p.beta));
  }
  if (p.bias) {
    const Placed bias("bias", p.bias, opened);
    if (bias.rank() != 1 || bias.extent(0) != q.n || (q.n > 1 && bias.stride(0) != 1))
      throw Error(fmt::format("bias: it has one dimension of n = {} elements without gaps", q.n));
    if (bias.type != d.type)
      throw Error(
          fmt::format("bias: of {}, and D of {}; they must be of one type", name(bias.type), name(d.type)));
    q.bias = bias.memory();
  }
  for (kernels::DeviceMatrix* x : {&q.a, &q.b})
    if (x->type == DType::f32) {
      if (!p.tf32)
        throw Error("A and B of f32 are rounded to tf32 on the tensor cores: set `tf32` to allow it");
      x->type = DType::tf32;
    }
  if (p.activation < PTXB_NONE || p.activation > PTXB_SILU)
    throw Error(fmt::format("activation {} is none of ptxb_activation", p.activation));
  q.alpha = p.alpha, q.beta = p.beta;
  q.activation = static_cast<kernels::Activation>(p.activation);
  q.fast_accumulation = !p.precise;
  return q;
}

static_assert(static_cast<int>(kernels::Activation::none) == PTXB_NONE &&
              static_cast<int>(kernels::Activation::relu) == PTXB_RELU &&
              static_cast<int>(kernels::Activation::gelu) == PTXB_GELU &&
              static_cast<int>(kernels::Activation::silu) == PTXB_SILU);
static_assert(PTXB_VERSION == PTXBUILDER_VERSION);
static_assert(sizeof(ptxb_tensor) == 48 && offsetof(ptxb_tensor, byte_offset) == 40);  // DLTensor

// Of an integer or a float the bits that the scalar has in the parameter's type; else those that are given.
uint64_t bits_of(const Parameter& parameter, const ptxb_argument& from) {
  const DType type = parameter.dtype;
  const int bits = 8 * size_of(type);
  if (from.scalar == PTXB_INTEGER) {
    const auto value = static_cast<int64_t>(from.bits);
    const bool fits = is_integer(type) && (bits == 64        ? is_signed(type) || value >= 0
                                           : is_signed(type) ? value >> (bits - 1) == value >> 63
                                                             : value >> bits == 0);
    if (!fits)
      throw Error(fmt::format("parameter '{}' is a {}, and is given the integer {}: {}", parameter.name,
                              name(type), value,
                              is_integer(type) ? "it does not fit" : "ptxb_of_float(), or ptxb_of_bits()"));
  }
  if (from.scalar == PTXB_REAL) {
    if (type != DType::f32 && type != DType::f64)
      throw Error(fmt::format("parameter '{}' is a {}, and is given a float: {}", parameter.name, name(type),
                              is_integer(type) ? "ptxb_of_integer()" : "ptxb_of_bits()"));
    float value = 0;
    std::memcpy(&value, &from.bits, sizeof value);
    if (type == DType::f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  return from.bits;
}

runtime::Argument argument_of(const Parameter& parameter, const ptxb_argument& from, const Opened& opened) {
  const char* given = from.fields ? "a struct" : from.tensor ? "a tensor" : "a scalar";
  runtime::Argument to;
  if (parameter.kind == Parameter::Kind::structure) {
    if (!from.fields)
      throw Error(fmt::format("parameter '{}' takes a struct, and is given {}", parameter.name, given));
    if (from.field_count != parameter.fields.size())
      throw Error(fmt::format("parameter '{}' takes a struct of {} fields, {} are given", parameter.name,
                              parameter.fields.size(), from.field_count));
    std::vector<runtime::Argument> fields;
    for (size_t i = 0; i < from.field_count; ++i)
      fields.push_back(argument_of(parameter.fields[i], from.fields[i], opened));
    to = runtime::structure(std::move(fields));
  } else if (parameter.kind == Parameter::Kind::scalar) {
    if (from.fields || from.tensor)
      throw Error(fmt::format("parameter '{}' is a scalar, and is given {}", parameter.name, given));
    to.dtype = parameter.dtype;
    to.bits = bits_of(parameter, from);
  } else {
    if (from.fields || !from.tensor)
      throw Error(fmt::format("parameter '{}' takes a tensor, and is given {}", parameter.name, given));
    const Placed t(parameter.name.c_str(), from.tensor, opened);
    if (parameter.kind == Parameter::Kind::pointer) {
      // A module of LLVM's does not say what its pointers point to: bytes.
      to = runtime::pointer(t.memory(), parameter.dtype == DType::u8 ? DType::u8 : t.type);
    } else {
      const size_t rank = t.rank();
      if (rank > 0 && t.extent(rank - 1) > 1 && t.stride(rank - 1) != 1)
        throw Error(fmt::format("parameter '{}': a tensor map's innermost dimension has stride 1, not {}",
                                parameter.name, t.stride(rank - 1)));
      const runtime::View memory = t.memory();
      runtime::check_rank(rank);
      std::array<uint64_t, runtime::Argument::kMaxRank> shape, strides;  // innermost first
      for (size_t i = 0; i < rank; ++i) {
        const size_t from_outermost = rank - 1 - i;
        shape[i] = static_cast<uint64_t>(t.extent(from_outermost));
        if (i > 0) strides[i - 1] = static_cast<uint64_t>(t.stride(from_outermost) * size_of(t.type));
      }
      const bool is_tf32 = parameter.dtype == DType::tf32 && t.type == DType::f32;  // as f32 in memory
      to = runtime::tensor(memory, is_tf32 ? DType::tf32 : t.type, std::span(shape).first(rank),
                           std::span(strides).first(rank - 1));
    }
  }
  if (from.name) to.name = from.name;
  return to;
}

// What the functions that load a kernel have in common; `load` takes it to the device.
template <class Load>
int loaded_by(ptxb_device* device, ptxb_kernel** loaded, Load&& load) {
  return status_of([&] {
    const auto& opened = given(device, "the device").opened;
    given(loaded, "where to put the kernel");
    runtime::LoadedKernel kernel = load(*opened->device);
    std::string sidecar = to_json(kernel.signature());
    *loaded = new ptxb_kernel{opened, std::move(kernel), std::move(sidecar)};
  });
}

}  // namespace

extern "C" {

int ptxb_version(void) { return PTXB_VERSION; }
const char* ptxb_error(void) { return last_error.c_str(); }

int ptxb_open(const char* name, ptxb_device** device) {
  return status_of([&] {
    given(device, "where to put the device");
    *device = new ptxb_device{std::make_shared<Opened>(&given(name, "the device's name"))};
  });
}
void ptxb_close(ptxb_device* device) { delete device; }

int ptxb_wait(ptxb_device* device, void* stream, int64_t milliseconds) {
  return status_of([&] {
    if (milliseconds < 0) throw Error(fmt::format("a wait of {} ms", milliseconds));
    given(device, "the device")
        .opened->device->synchronize(stream_of(stream), std::chrono::milliseconds(milliseconds));
  });
}

int ptxb_allocate(ptxb_device* device, size_t bytes, void** address) {
  return status_of([&] {
    given(address, "where to put the address");
    *address = reinterpret_cast<void*>(given(device, "the device").opened->device->allocate(bytes));
  });
}
int ptxb_free(ptxb_device* device, void* address) {
  return status_of([&] { given(device, "the device").opened->device->release(address_of(address)); });
}
int ptxb_copy_in(ptxb_device* device, void* to, const void* from, size_t bytes) {
  return status_of([&] {
    if (bytes > 0) (void)given(static_cast<const char*>(from), "what is copied");
    given(device, "the device").opened->device->copy_in(address_of(to), from, bytes);
  });
}
int ptxb_copy_out(ptxb_device* device, void* to, const void* from, size_t bytes) {
  return status_of([&] {
    if (bytes > 0) (void)given(static_cast<char*>(to), "where to put the copy");
    given(device, "the device").opened->device->copy_out(to, address_of(from), bytes);
  });
}

int ptxb_matmul_workspace(ptxb_device* device, const ptxb_matmul* product, size_t* bytes) {
  return status_of([&] {
    Opened& opened = *given(device, "the device").opened;
    given(bytes, "where to put the bytes");
    *bytes = opened.product().workspace_bytes(arguments_of(opened, product), Where{});
  });
}

int ptxb_matmul_run(ptxb_device* device, const ptxb_matmul* product, void* workspace, size_t workspace_bytes,
                    void* stream) {
  return status_of([&] {
    Opened& opened = *given(device, "the device").opened;
    kernels::MatmulArguments p = arguments_of(opened, product);
    p.workspace = {address_of(workspace), workspace_bytes};
    p.stream = stream_of(stream);
    opened.product()(p, Where{});
  });
}

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

int ptxb_load_ir(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                 ptxb_kernel** loaded) {
  return loaded_by(device, loaded, [&](runtime::Device& on) {
    const auto* start = static_cast<const char*>(ir);
    const CompiledModule module =
        compiler_for(on).compile_ir({&given(start, "the IR"), bytes}, "the IR", {}, {}, Where{});
    std::string names;
    for (const ModuleKernel& k : module.kernels) {
      names += (names.empty() ? "" : ", ") + k.name;
      if (kernel ? k.name != kernel : module.kernels.size() != 1) continue;
      if (!k.signature) throw Error(fmt::format("kernel '{}': {}", k.name, k.why_unknown));
      return runtime::LoadedKernel(on, module.cubin.empty() ? module.ptx : module.cubin, *k.signature,
                                   Where{});
    }
    throw Error(kernel ? fmt::format("the IR has no kernel '{}'; it has: {}", kernel, names)
                       : fmt::format("the IR has {} kernels, and one has to be named: {}",
                                     module.kernels.size(), names));
  });
}

void ptxb_kernel_free(ptxb_kernel* kernel) { delete kernel; }
const char* ptxb_kernel_sidecar(const ptxb_kernel* kernel) { return kernel ? kernel->sidecar.c_str() : ""; }

int ptxb_launch(ptxb_kernel* kernel, const uint32_t grid[3], const ptxb_argument* arguments, size_t count,
                void* stream) {
  return status_of([&] {
    ptxb_kernel& k = given(kernel, "the kernel");
    const Signature& signature = k.kernel.signature();
    if (count != signature.parameters.size())
      throw Error(fmt::format("kernel '{}' takes {} arguments, {} are given", signature.kernel,
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
