// Tests launches with checked arguments on a device that records them, and the sidecars that describe the
// arguments.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "folder_kit.h"
#include "ptxbuilder/file_text.h"
#include "runtime/launch_check.h"
#include "runtime/lazy.h"
#include "runtime/loaded_kernel.h"
#include "runtime/tensor_map.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::runtime_test {
using namespace runtime;

namespace {

struct FakeProgram : Program {};

// A device with host memory that records launches.
class FakeDevice : public Device {
 public:
  DeviceProperties properties() const override { return {"fake", 90, 1, 0, 232448, "fake"}; }
  Address allocate(size_t bytes) override {
    auto memory = std::make_unique<std::byte[]>(bytes + 256);
    const Address address = (reinterpret_cast<Address>(memory.get()) + 255) / 256 * 256;
    memory_[address] = std::move(memory);
    return address;
  }
  void release(Address address) noexcept override { memory_.erase(address); }
  void copy_in(Address to, const void* from, size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void copy_out(void* to, Address from, size_t bytes) override {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  }
  void fill(Address to, uint8_t value, size_t bytes) override {
    std::memset(reinterpret_cast<void*>(to), value, bytes);
  }
  std::unique_ptr<Program> load(const std::string& image, const Signature& signature) override {
    if (image == "corrupt") throw Error("corrupt image");
    this->image = image;
    signature_ = signature;
    return std::make_unique<FakeProgram>();
  }
  TensorMap encode_in_scope(const TensorMapView& map) override {
    encoded.push_back({map.recipe,
                       map.address,
                       {map.shape.begin(), map.shape.end()},
                       {map.strides.begin(), map.strides.end()}});
    TensorMap bytes;
    std::memcpy(bytes.bytes.data(), &map.address, sizeof map.address);
    return bytes;
  }
  void launch_in_scope(Program&, const Launch& launch, std::span<const void* const> parameters) override {
    check(launch, signature_, properties().shared_bytes_per_cta);
    last = launch;
    ++launches;
    values.clear();
    for (size_t i = 0; i < parameters.size(); ++i) {
      uint64_t value = 0;
      const int size = signature_.parameters[i].size_bytes();
      std::memcpy(&value, parameters[i], static_cast<size_t>(std::min(8, size)));
      values.push_back(value);
      const auto* first = static_cast<const std::byte*>(parameters[i]);
      bytes.assign(first, first + size);
    }
  }
  void synchronize(std::chrono::milliseconds) override {}
  std::vector<double> time(int, int, const std::function<void()>&) override { return {}; }

  size_t alive() const { return memory_.size(); }

  bool wants_ptx() const override { return reads_ptx; }

  bool reads_ptx = false;
  std::string image;  // the last image that was loaded
  Launch last;
  int launches = 0;
  std::vector<uint64_t> values;  // the first 8 bytes of each parameter of the last launch
  std::vector<std::byte> bytes;  // the last parameter of the last launch
  std::vector<TensorMapArguments> encoded;

 private:
  Signature signature_;
  std::map<Address, std::unique_ptr<std::byte[]>> memory_;
};

Signature example() {
  Signature s;
  s.kernel = "scale";
  s.threads = 256;
  s.cluster = {2, 1, 1};
  s.static_shared_bytes = 64;
  s.dynamic_shared_bytes = 65536;
  s.parameters = {{.name = "a",
                   .kind = Parameter::Kind::tensor_map,
                   .dtype = DType::bf16,
                   .tensor_map = {.dtype = DType::bf16,
                                  .box = {64, 64},
                                  .element_strides = {1, 1},
                                  .swizzle = Swizzle::b128}},
                  {.name = "out", .kind = Parameter::Kind::pointer, .dtype = DType::f32, .tensor_map = {}},
                  {.name = "n", .kind = Parameter::Kind::scalar, .dtype = DType::u32, .tensor_map = {}},
                  {.name = "alpha", .kind = Parameter::Kind::scalar, .dtype = DType::f32, .tensor_map = {}}};
  s.shared = {{"sA", 0, 16384, 3}, {"full", 49152, 8, 3}};
  return s;
}

// The example kernel and its arguments. Every test changes one thing.
struct Example {
  FakeDevice device;
  Buffer a{device, 128 * 96 * 2}, out{device, 64};
  LoadedKernel kernel{device, "image", example()};
  LaunchOptions options{.grid = {4, 1, 1}};
  std::vector<Argument> arguments = {tensor(a, DType::bf16, {128, 96}), pointer(out, DType::f32), scalar(7u),
                                     scalar(0.5f)};
  void launch() { kernel.launch(options, arguments); }
};

}  // namespace

TEST_CASE("a launch hands on the kernel's shape and the values in order") {
  Example e;
  e.options.programmatic_dependent_launch = true;
  e.options.cooperative = true;
  e.launch();
  REQUIRE(e.device.values.size() == 4);
  CHECK(e.device.values[0] == e.a.address());
  CHECK(e.device.values[1] == e.out.address());
  CHECK(e.device.values[2] == 7);
  CHECK(e.device.values[3] == 0x3f000000);
  CHECK(e.device.last.grid.x == 4);
  CHECK(e.device.last.block.x == 256);
  CHECK(e.device.last.cluster.x == 2);
  CHECK(e.device.last.dynamic_shared_bytes == 65536);
  CHECK(e.device.last.programmatic_dependent_launch);
  CHECK(e.device.last.cooperative);
  REQUIRE(e.device.encoded.size() == 1);
  CHECK(e.device.encoded[0].recipe == example().parameters[0].tensor_map);
  CHECK(e.device.encoded[0].shape == std::vector<uint64_t>{128, 96});
  CHECK(e.device.encoded[0].strides == std::vector<uint64_t>{256});
}

TEST_CASE("a kernel whose CTAs wait for each other is launched cooperatively") {
  Example e;
  e.launch();
  CHECK_FALSE(e.device.last.cooperative);
  Signature waits = example();
  waits.cooperative = true;
  LoadedKernel kernel(e.device, "image", waits);
  kernel.launch(e.options, e.arguments);
  CHECK(e.device.last.cooperative);
}

TEST_CASE("arguments that are not the kernel's are refused by name") {
  Example e;
  auto with = [&](size_t i, Argument argument) {
    std::vector<Argument> arguments = e.arguments;
    arguments[i] = argument;
    e.kernel.launch(e.options, arguments);
  };
  SUBCASE("missing") {
    e.arguments.pop_back();
    CHECK_ERROR(e.launch(),
                "kernel 'scale' takes 4 arguments (a, out, n, alpha), but 3 were given; missing: alpha");
  }
  SUBCASE("extra") {
    e.arguments.push_back(scalar(1));
    CHECK_ERROR(e.launch(),
                "takes 4 arguments (a, out, n, alpha), but 5 were given; the last 1 are superfluous");
  }
  SUBCASE("type of a scalar") {
    CHECK_ERROR(with(2, scalar(7)), "parameter 2 'n': it takes a scalar of u32, but one of s32 was given");
    CHECK_ERROR(with(2, scalar(uint64_t{7})), "it takes a scalar of u32, but one of u64 was given");
    CHECK_ERROR(with(3, scalar(0.5)),
                "parameter 3 'alpha': it takes a scalar of f32, but one of f64 was given");
    with(2, scalar_bits(DType::u32, 9));
    CHECK(e.device.values[2] == 9);
  }
  SUBCASE("kind") {
    CHECK_ERROR(with(1, scalar(1.0f)), "parameter 1 'out': it takes a pointer, but a scalar was given");
    CHECK_ERROR(with(0, pointer(e.a, DType::bf16)),
                "parameter 0 'a': it takes a tensor, but a pointer was given");
    CHECK_ERROR(with(1, tensor(e.out, DType::f32, {16})),
                "parameter 1 'out': it takes a pointer, but a tensor was given");
  }
  SUBCASE("type pointed to") {
    CHECK_ERROR(with(1, pointer(e.out, DType::bf16)), "it takes a pointer of f32, but one of bf16 was given");
    with(1, pointer(View{}, DType::f32));
    CHECK(e.device.values[1] == 0);
  }
  SUBCASE("type of a tensor") {
    CHECK_ERROR(with(0, tensor(e.a, DType::f16, {128, 96})),
                "it takes a tensor of bf16, but one of f16 was given");
  }
  SUBCASE("rank of a tensor") {
    CHECK_ERROR(with(0, tensor(e.a, DType::bf16, {128, 48, 2})),
                "it takes a tensor of rank 2, but one of rank 3 was given");
    CHECK_ERROR(tensor(e.a, DType::bf16, {1, 1, 1, 1, 1, 1}), "tensor: the rank is 6, but must be 1 to 5");
    CHECK_ERROR(tensor(e.a, DType::bf16, {128, 96}, {256, 256}),
                "tensor: 2 strides were given for rank 2; give 1");
  }
  SUBCASE("rules of the tensor map") {
    CHECK_ERROR(with(0, tensor(e.a, DType::bf16, {100, 96})),
                "kernel 'scale', parameter 0 'a': tensor map: the stride of dimension 1, 200 B, is not a "
                "multiple of 16");
    CHECK_ERROR(with(0, tensor(e.a.part(8, 1024), DType::bf16, {64, 4})),
                "parameter 0 'a': tensor map: the address");
    with(0, tensor(e.a, DType::bf16, {100, 96}, {208}));
    CHECK(e.device.encoded.back().strides == std::vector<uint64_t>{208});
  }
  SUBCASE("a tensor beyond its memory") {
    CHECK_ERROR(with(0, tensor(e.a, DType::bf16, {128, 97})),
                "parameter 0 'a': the tensor [128, 97] of bf16 with strides [256] B needs 24832 B, but its "
                "memory has 24576 B");
    with(0, tensor(e.a, DType::bf16, {128, 96}));
    CHECK(e.device.launches == 1);
  }
  SUBCASE("names") {
    CHECK_ERROR(with(2, scalar(7u).named("m")),
                "parameter 2 'n': the argument is named 'm'; parameters are a, out, n, alpha");
    with(2, scalar(7u).named("n"));
    CHECK(e.device.launches == 1);
  }
  SUBCASE("a buffer without memory") {
    Buffer none;
    CHECK_ERROR(with(1, pointer(none, DType::f32)), "the Buffer that is passed as an argument has no memory");
  }
}

namespace {

struct Scaling {
  uint8_t flags;
  double beta;
  Address out;
  uint16_t half;
};

Signature with_struct() {
  Signature s = example();
  auto one = [](const char* name, Parameter::Kind kind, DType type) {
    Parameter p;
    p.name = name;
    p.kind = kind;
    p.dtype = type;
    return p;
  };
  Parameter scaling = one("scaling", Parameter::Kind::structure, DType::u32);
  scaling.fields = {
      one("flags", Parameter::Kind::scalar, DType::u8), one("beta", Parameter::Kind::scalar, DType::f64),
      one("out", Parameter::Kind::pointer, DType::f32), one("half", Parameter::Kind::scalar, DType::bf16)};
  s.parameters = {scaling};
  return s;
}

}  // namespace

TEST_CASE("a struct's fields are checked one by one and laid out as in C") {
  FakeDevice device;
  LoadedKernel kernel(device, "image", with_struct());
  Buffer out(device, 64);
  std::vector<Argument> fields = {scalar(uint8_t{3}), scalar(0.5).named("beta"), pointer(out, DType::f32),
                                  scalar_bits(DType::bf16, 0x3f80)};
  auto with = [&](size_t i, const Argument& field) {
    std::vector<Argument> changed = fields;
    changed[i] = field;
    kernel.launch({.grid = {2}}, {structure(changed)});
  };
  kernel.launch({.grid = {2}}, {structure(fields).named("scaling")});
  REQUIRE(device.bytes.size() == sizeof(Scaling));
  Scaling arrived;
  std::memcpy(&arrived, device.bytes.data(), sizeof arrived);
  CHECK(arrived.flags == 3);
  CHECK(arrived.beta == 0.5);
  CHECK(arrived.out == out.address());
  CHECK(arrived.half == 0x3f80);
  CHECK_ERROR(with(1, scalar(0.5f)),
              "kernel 'scale', parameter 0 'scaling': field 1 'beta': it takes a scalar of f64, but one of "
              "f32 was given");
  CHECK_ERROR(with(1, scalar(0.5).named("alpha")),
              "field 1 'beta': the argument is named 'alpha'; fields are flags, beta, out, half");
  CHECK_ERROR(with(2, scalar(1.0f)), "field 2 'out': it takes a pointer, but a scalar was given");
  CHECK_ERROR(kernel.launch({.grid = {2}}, {scalar(1u)}),
              "'scaling': it takes a struct, but a scalar was given");
  fields.pop_back();
  CHECK_ERROR(kernel.launch({.grid = {2}}, {structure(fields)}),
              "it takes a struct of 4 fields (flags, beta, out, half), but 3 were given");
  CHECK(device.launches == 1);
}

TEST_CASE("each C++ type is the scalar of its width") {
  CHECK(scalar(int8_t{-1}).dtype == DType::s8);
  CHECK(scalar(uint8_t{1}).dtype == DType::u8);
  CHECK(scalar(int16_t{-1}).dtype == DType::s16);
  CHECK(scalar(uint16_t{1}).dtype == DType::u16);
  CHECK(scalar(-1).dtype == DType::s32);
  CHECK(scalar(1u).dtype == DType::u32);
  CHECK(scalar(-1l).dtype == DType::s64);
  CHECK(scalar(1ull).dtype == DType::u64);
  CHECK(scalar(1.0f).dtype == DType::f32);
  CHECK(scalar(1.0).dtype == DType::f64);
  CHECK(scalar(int16_t{-1}).bits == 0xffff);
}

TEST_CASE("tensor maps are encoded for each launch, and hold its tensors") {
  Example e;
  for (uint64_t row = 0; row < 40; ++row) {
    e.arguments[0] = tensor(e.a.part(256 * row, 256), DType::bf16, {128, 1});
    e.launch();
    CHECK(e.device.values[0] == e.a.address() + 256 * row);
  }
  CHECK(e.device.encoded.size() == 40);
  e.arguments[0] = tensor(e.a, DType::bf16, {64, 48}, {512});
  e.launch();
  CHECK(e.device.encoded.back().strides == std::vector<uint64_t>{512});
  // The tensor was valid, but its memory has become smaller.
  e.arguments[0] = tensor(e.a.part(0, 64), DType::bf16, {128, 96});
  CHECK_ERROR(e.launch(), "its memory has 64 B");
}

TEST_CASE("a prepared launch takes other addresses, scalars and streams, and all else as it was checked") {
  Example e;
  const PreparedLaunch prepared = e.kernel.prepare(e.options, e.arguments);
  CHECK(e.device.launches == 0);
  const Buffer other(e.device, 128 * 96 * 2);
  auto* stream = reinterpret_cast<void*>(0x55);
  prepared({{other.address(), e.a.address(), 9, 0x40000000}}, stream);
  CHECK(e.device.values == std::vector<uint64_t>{other.address(), e.a.address(), 9, 0x40000000});
  CHECK(e.device.encoded.back().shape == std::vector<uint64_t>{128, 96});
  CHECK(e.device.encoded.back().strides == std::vector<uint64_t>{256});
  CHECK(e.device.last.grid.x == 4);
  CHECK(e.device.last.stream.handle() == stream);

  CHECK_ERROR(prepared({{other.address() + 8, 0, 0, 0}}, {}), "parameter 0 'a': tensor map: the address");
  CHECK_ERROR(prepared({{other.address()}}, {}), "takes 4 arguments (a, out, n, alpha), but 1 were given");
  CHECK(e.device.launches == 1);

  // A map is encoded again only if its address differs from that of the last launch.
  const size_t encoded = e.device.encoded.size();
  prepared({{other.address(), 0, 1, 2}}, {});
  CHECK(e.device.encoded.size() == encoded);
  CHECK(e.device.values == std::vector<uint64_t>{other.address(), 0, 1, 2});
  prepared({{e.a.address(), 0, 1, 2}}, {});
  CHECK(e.device.encoded.size() == encoded + 1);
  CHECK(e.device.values[0] == e.a.address());

  CHECK_ERROR(e.kernel.prepare({}, e.arguments), "a prepared launch needs an explicit grid");
  e.arguments[0] = tensor(e.a.part(0, 64), DType::bf16, {128, 96});
  CHECK_ERROR(e.kernel.prepare(e.options, e.arguments), "parameter 0 'a': the tensor [128, 96]");
  e.arguments[0] = scalar(1u);
  CHECK_ERROR(e.kernel.prepare(e.options, e.arguments), "it takes a tensor, but a scalar was given");
}

TEST_CASE("a list of arguments keeps what is made in it, as long as it lives, on the stack and beyond") {
  const Argument with_memory = structure({scalar(1u)});
  for (uint32_t most : {0u, 1u, 16u, 17u, 100u}) {
    CAPTURE(most);
    {
      ArgumentList list(most);
      for (uint32_t i = 0; i + 1 < most; ++i) list.add([&] { return scalar(i); });
      if (most > 0) list.add([&] { return with_memory; });
      const std::span<const Argument> all = list;
      REQUIRE(all.size() == most);
      for (uint32_t i = 0; i + 1 < most; ++i) CHECK(all[i].bits == i);
      CHECK(with_memory.fields.use_count() == (most > 0 ? 2 : 1));
    }
    CHECK(with_memory.fields.use_count() == 1);
  }
}

TEST_CASE("a launch of many parameters, beyond what a stack holds") {
  FakeDevice device;
  Signature s;
  s.kernel = "many";
  for (int i = 0; i < 200; ++i) {
    Parameter p = example().parameters[0];
    p.name = "t" + std::to_string(i);
    s.parameters.push_back(p);
  }
  Buffer memory(device, 256 * 200);
  LoadedKernel kernel(device, "image", s);
  std::vector<Argument> arguments;
  for (size_t i = 0; i < 200; ++i)
    arguments.push_back(tensor(memory.part(256 * i, 256), DType::bf16, {128, 1}));
  kernel.launch({.grid = {1}}, arguments);
  for (size_t i = 0; i < 200; ++i) CHECK(device.values[i] == memory.address() + 256 * i);
}

TEST_CASE("the rules of a launch") {
  const Signature s = example();
  const Launch good = {
      .grid = {4, 3, 1}, .block = {256, 1, 1}, .cluster = {2, 1, 1}, .dynamic_shared_bytes = 65536};
  Launch l = good;
  CHECK(error_of([&] { check(good, s, 232448); }) == "");
  auto refused = [&] { return error_of([&] { check(l, s, 232448); }); };
  SUBCASE("grid") {
    l.grid.x = 5;
    CHECK(
        refused() ==
        "launch of 'scale': grid 5 x 3 x 1 is not a multiple of cluster 2 x 1 x 1: 5 % 2 = 1 in x; next: 6");
    l.grid = {4, 0, 1};
    CHECK(refused().find("grid 4 x 0 x 1: x must be 1 to 2147483647, and y and z 1 to 65535") !=
          std::string::npos);
    l.grid = {4, 65536, 1};
    CHECK(refused().find("grid 4 x 65536 x 1") != std::string::npos);
    l.grid = {4, 65535, 1};
    CHECK(refused() == "");
  }
  SUBCASE("threads") {
    l.block.x = 128;
    CHECK(refused() ==
          "launch of 'scale': block 128 x 1 x 1, but the kernel was compiled for 256 threads in x");
    l.block = {16, 16, 1};
    CHECK(refused().find("block 16 x 16 x 1, but") != std::string::npos);
    l.block = {1024, 2, 1};
    CHECK(refused() == "launch of 'scale': block 1024 x 2 x 1 = 2048 threads is not in 1 to 1024");
  }
  SUBCASE("cluster") {
    l.cluster = {1, 1, 1};
    CHECK(refused() ==
          "launch of 'scale': cluster 1 x 1 x 1, but the kernel was compiled for cluster 2 x 1 x 1");
    l.cluster = {0, 1, 1};
    CHECK(refused().find("cluster 0 x 1 x 1 = 0 CTAs is not in 1 to 16") != std::string::npos);
    l.cluster = {17, 1, 1};
    CHECK(refused().find("cluster 17 x 1 x 1 = 17 CTAs is not in 1 to 16") != std::string::npos);
  }
  SUBCASE("shared memory") {
    l.dynamic_shared_bytes = 65535;
    CHECK(refused() ==
          "launch of 'scale': 65535 B of dynamic shared memory, but the kernel was compiled for 65536 B");
    CHECK(error_of([&] { check(good, s, 65599); }) ==
          "launch of 'scale': 64 B static + 65536 B dynamic = 65600 B of shared memory, 1 B over this "
          "device's 65599 B "
          "per CTA");
    CHECK(error_of([&] { check(good, s, 65600); }) == "");
  }
  SUBCASE("through the kernel") {
    Example e;
    e.options.grid.x = 3;
    CHECK_ERROR(e.launch(), "grid 3 x 1 x 1 is not a multiple of cluster 2 x 1 x 1: 3 % 2 = 1 in x; next: 4");
    CHECK_ERROR(e.kernel.launch({}, e.arguments),
                "launch of 'scale': the grid is missing: state the number of CTAs");
    CHECK_ERROR(e.kernel.launch({.programmatic_dependent_launch = true}, e.arguments), "the grid is missing");
    CHECK_ERROR(e.kernel.launch({.grid = {2, 0}}, e.arguments), "grid 2 x 0 x 1: x must be 1 to");
    e.options.grid.x = 2;
    e.launch();
    CHECK(e.device.launches == 1);
  }
}

TEST_CASE("targets and GPUs") {
  CHECK(runs_on("sm_90a", 90));
  CHECK(!runs_on("sm_90a", 100));
  CHECK(!runs_on("sm_90a", 91));
  CHECK(runs_on("sm_90", 90));
  CHECK(runs_on("sm_80", 89));
  CHECK(!runs_on("sm_89", 80));
  CHECK(!runs_on("sm_90", 100));
  CHECK(runs_on("sm_100f", 103));
  for (const char* bad : {"", "sm_", "90a", "sm_90x", "compute_90", "sm_90aa"})
    CHECK_ERROR(runs_on(bad, 90), fmt::format("'{}' is not a target", bad));
}

TEST_CASE("buffers own their memory and check copies") {
  FakeDevice device;
  {
    const std::vector<uint32_t> values = {1, 2, 3, 4};
    Buffer b = Buffer::of(device, values);
    CHECK(b.bytes() == 16);
    CHECK(b.address() % 256 == 0);
    CHECK(b.copy_out<uint32_t>() == values);
    b.copy_in(std::array<uint32_t, 2>{8, 9}, 8);
    CHECK(b.copy_out<uint32_t>() == std::vector<uint32_t>{1, 2, 8, 9});
    std::array<uint32_t, 2> middle = {};
    b.copy_out(middle, 4);
    CHECK(middle == std::array<uint32_t, 2>{2, 8});
    CHECK_ERROR(b.copy_in(std::array<uint32_t, 2>{8, 9}, 12),
                "bytes 12 to 20 are not all within the Buffer of 16 B");
    CHECK_ERROR(b.copy_out(std::span(middle), 20), "bytes 20 to 28 are not all within the Buffer of 16 B");
    b.fill(0xff);
    CHECK(b.copy_out<uint8_t>() == std::vector<uint8_t>(16, 0xff));
    CHECK_ERROR((b.copy_out<std::array<char, 3>>()),
                "the Buffer has 16 B, which cannot be read as whole elements of 3 B");
    CHECK_ERROR(b.part(16, 1), "bytes 16 to 17 are not all within the Buffer of 16 B");
    CHECK(b.part(16, 0).address == b.address() + 16);

    Buffer moved = std::move(b);
    CHECK(moved.copy_out<uint32_t>().size() == 4);
    CHECK_ERROR(b.fill(), "the Buffer has no memory");  // NOLINT: looks at a moved-from value on purpose
    b = Buffer(device, 8);
    CHECK(device.alive() == 2);
    b = std::move(moved);
    CHECK(b.bytes() == 16);
  }
  CHECK(device.alive() == 0);
}

TEST_CASE("a buffer may outlive its device: it frees nothing then, and using it is an error") {
  auto device = std::make_unique<FakeDevice>();
  FakeDevice other;
  Buffer b(*device, 16), dropped(*device, 8);
  CHECK(device->alive() == 2);
  CHECK_NOTHROW(b.fill());
  device.reset();
  const char* says = "the Buffer of 16 B is used after its Device was destroyed";
  CHECK_ERROR(b.fill(), says);
  CHECK_ERROR(b.copy_out<uint32_t>(), says);
  CHECK_ERROR(b.copy_in(std::array<uint32_t, 2>{8, 9}), says);
  CHECK_ERROR(b.address(), says);
  CHECK_ERROR(pointer(b, DType::f32), says);
  Buffer moved = std::move(b);
  CHECK_ERROR(moved.fill(), says);
  moved = Buffer(other, 4);
  CHECK_NOTHROW(moved.fill());
  CHECK(other.alive() == 1);
}

TEST_CASE("a launch without a grid goes by the kernel's rule") {
  Example e;
  Signature s = example();
  s.grid = {"2 * ceil_div(n, 3)", "extent(a, 1) / 48", "multiprocessors"};
  LoadedKernel kernel(e.device, "image", s);
  kernel.launch({}, e.arguments);  // n = 7, a is 128 x 96, and the device has one multiprocessor
  CHECK(e.device.last.grid.x == 6);
  CHECK(e.device.last.grid.y == 2);
  CHECK(e.device.last.grid.z == 1);
  kernel.launch({.grid = {2, 1, 1}}, e.arguments);  // the caller takes responsibility for this grid
  CHECK(e.device.last.grid.x == 2);
  e.arguments[2] = scalar(0u);
  CHECK_ERROR(kernel.launch({}, e.arguments),
              "launch of 'scale': grid.x = '2 * ceil_div(n, 3)': it is 0, but a launch has at least 1 CTA "
              "along each dimension, with n = 0");
  CHECK_ERROR(e.kernel.launch({}, e.arguments), "or let the kernel state a rule, as in k.grid(");
  s.grid->at(0) = "m";
  CHECK_ERROR(LoadedKernel(e.device, "image", s),
              "the sidecar of kernel 'scale': grid.x = 'm', column 1: there is no 'm'");
}

TEST_CASE("sidecars round-trip") {
  Signature s = example();
  CHECK(signature_from_json(to_json(s), "scale.json") == s);
  s.registers = 168;
  s.spill_bytes = 0;
  s.stack_bytes = 16;
  s.parameters[0].tensor_map.oob_fill = OobFill::nan;
  s.parameters[0].tensor_map.pixels = 96;
  s.parameters[0].tensor_map.l2_promotion = L2Promotion::b256;
  CHECK(signature_from_json(to_json(s), "scale.json") == s);
  s.grid = {"ceil_div(n, 256)", "extent(a, 1)", "1"};
  s.parameters[2].meaning = "elements of \"out\"";
  s.configuration = {{"tile", "128x256"}, {"a", "bf16"}};
  s.overlaps = true;
  s.cooperative = true;
  CHECK(signature_from_json(to_json(s), "scale.json") == s);
  s = with_struct();
  s.parameters[0].fields[1].meaning = "where";
  CHECK(signature_from_json(to_json(s), "scale.json") == s);
  CHECK(s.parameters[0].size_bytes() == 32);
}

TEST_CASE("sidecars whose structs are not laid out as in C are refused") {
  const std::string good = to_json(with_struct());
  auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return error_of([&] { signature_from_json(text, "s.json"); });
  };
  CHECK(broken("scaling", "scaling") == "");
  CHECK(broken("\"offset\": 8", "\"offset\": 4") ==
        "s.json.parameters[0].fields[1].offset: 4, but in C the field is at byte 8");
  CHECK(broken("\"bytes\": 32", "\"bytes\": 26") ==
        "s.json.parameters[0].bytes: 26, but in C the struct has 32");
  CHECK(broken("\"fields\": [", "\"fields\": [], \"rest\": [")
            .starts_with("s.json.parameters[0].fields: expected a list of at least one field"));
}

TEST_CASE("broken sidecars are refused with the member's name") {
  const std::string good = to_json(example());
  auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return error_of([&] { signature_from_json(text, "scale.json"); });
  };
  auto check_broken = [&](const std::string& from, const std::string& to, const std::string& text) {
    const std::string message = broken(from, to);
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  CHECK(broken("scale", "scale") == "");
  CHECK_ERROR(signature_from_json("", "scale.json"), "no JSON: syntax error");
  CHECK_ERROR(signature_from_json(good.substr(0, good.size() / 2), "scale.json"), "no JSON: syntax error");
  CHECK_ERROR(signature_from_json("{\n \"threads\": 1e999}", "scale.json"),
              "scale.json: line 2, column 13: a double cannot hold 1e999");
  CHECK_ERROR(signature_from_json("{\"format\": 1, \"kernel\": \"k\", \"format\": 2}", "scale.json"),
              "scale.json: the member \"format\" appears twice in one object");
  CHECK_ERROR(signature_from_json("[]", "scale.json"), "scale.json: expected an object, found []");
  check_broken("\"format\": 1", "\"format\": 99",
               "sidecar format 99 is unknown; this runtime reads formats 1 and 2");
  check_broken("\"kernel\"", "\"kernle\"", "the member 'kernel' is missing");
  check_broken("\"kernel\": \"scale\"", "\"kernel\": 5", "scale.json.kernel: the value 5 has the wrong type");
  check_broken("\"threads\": 256", "\"threads\": -1",
               "scale.json.threads: expected an unsigned 32-bit number");
  check_broken("\"threads\": 256", "\"threads\": 4294967296",
               "scale.json.threads: expected an unsigned 32-bit number");
  check_broken("\"threads\": 256", "\"threads\": 1.5", "scale.json.threads: expected an unsigned");
  check_broken("\"parameters\": [", "\"parameters\": 3, \"x\": [", "parameters: expected a list");
  check_broken("\"kind\": \"pointer\"", "\"kind\": \"reference\"",
               "scale.json.parameters[1].kind: 'reference' is not one of scalar, pointer, tensor_map");
  check_broken("\"dtype\": \"f32\"", "\"dtype\": \"float\"", "'float' is not an element type");
  check_broken("\"swizzle\": \"128\"", "\"swizzle\": \"256\"",
               "parameters[0].swizzle: '256' is not one of none");
  check_broken("\"oob_fill\": \"zero\"", "\"oob_fill\": 0",
               "parameters[0].oob_fill: the value 0 has the wrong type");
  check_broken("\"box\"", "\"boxes\"", "parameters[0]: the member 'box' is missing");
  check_broken("\"shared\": [", "\"shared\": 3, \"x\": [", "scale.json.shared: expected a list");
  check_broken("\"stages\": 3", "\"stages\": -3", "scale.json.shared[0].stages: expected an unsigned");
  CHECK(broken("\"shared\"", "\"shadowed\"") == "");  // a sidecar may omit this
  check_broken("\"shared\": [", "\"grid\": [\"n\"], \"shared\": [",
               "scale.json.grid: expected 3 rules, found [\"n\"]");
  check_broken("\"shared\": [", "\"configuration\": {\"bm\": 64}, \"shared\": [",
               "scale.json.configuration.bm: the value 64 has the wrong type");
  check_broken("\"shared\": [", "\"configuration\": 1, \"shared\": [",
               "scale.json.configuration: expected an object");
  check_broken("\"shared\": [", "\"profile\": 1, \"shared\": [", "scale.json.profile: expected an object");
  check_broken("\"shared\": [", "\"profile\": {\"records\": 64, \"names\": [], \"roles\": 1}, \"shared\": [",
               "scale.json.profile.roles: expected a list");
  const auto check_sites = [&](const std::string& sites, const std::string& text) {
    check_broken("\"shared\": [",
                 "\"profile\": {\"records\": 64, \"names\": [\"a\"], \"roles\": [], \"sites\": " + sites +
                     "}, \"shared\": [",
                 "scale.json.profile.sites" + text);
  };
  check_sites("1", ": expected a list");
  check_sites("[[], 1]", "[1]: expected a list");
  check_sites(R"([[{"kind": "start", "name": 0, "clock": 0}]])",
              "[0][0].kind: 'start' is not one of begin, end");
  check_sites(R"([[{"kind": "begin", "name": 1, "clock": 2}]])",
              "[0][0]: name 1, clock 2 and value 0, but there are 1 names and a record has 11 words");
  check_sites(R"([[{"kind": "mark_u32", "name": 0, "clock": 0, "value": 11}]])",
              "[0][0]: name 0, clock 0 and value 11");
}

TEST_CASE("the page of sidecars has each member and each word of them") {
  Signature all = example();
  all.threads_y = 2, all.grid = {"1", "1", "1"}, all.configuration = {{"bm", "128"}};
  all.overlaps = all.cooperative = true;
  using Kind = ProfileFormat::Kind;
  all.profile = ProfileFormat{
      64, {"wait", "tile"}, {{"loads", 0, 4}}, {{{Kind::begin, 0, 0}, {Kind::mark_s32, 1, 0, 2}}}};
  CHECK(signature_from_json(to_json(all), "all.json").profile == all.profile);
  all.registers = all.spill_bytes = all.stack_bytes = 0;
  all.parameters[0].meaning = "what is scaled";
  all.parameters.push_back({.name = "maps",
                            .kind = Parameter::Kind::tensor_map_array,
                            .tensor_map = all.parameters[0].tensor_map});
  all.parameters.push_back({.name = "s", .kind = Parameter::Kind::structure, .fields = {all.parameters[1]}});
  const std::string page = file_text(std::string(PTXBUILDER_TEST_DIR) + "/../runtime/sidecar.md"),
                    json = to_json(all);
  size_t members = 0;
  for (size_t at = json.find("\": "); at != std::string::npos; at = json.find("\": ", at + 1), ++members) {
    const size_t begin = json.rfind('"', at - 1) + 1;
    const std::string member = json.substr(begin, at - begin);
    if (member == "bm") continue;  // part of a configuration
    CHECK_MESSAGE(page.find("`" + member + "`") != std::string::npos, member);
  }
  CHECK(members > 40);
  for (const char* kind : {"scalar", "pointer", "tensor_map", "struct", "tensor_map_array"})
    CHECK_MESSAGE(page.find(std::string("| `") + kind + "` |") != std::string::npos, kind);
}

TEST_CASE("signatures that no kernel can have are refused when it is loaded") {
  FakeDevice device;
  auto refused = [&](auto change) {
    Signature s = example();
    change(s);
    return error_of([&] { LoadedKernel(device, "image", s); });
  };
  auto check_refused = [&](auto change, const char* text) {
    const std::string message = refused(change);
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  CHECK(refused([](Signature&) {}) == "");
  CHECK(refused([](Signature& s) { s = with_struct(); }) == "");
  check_refused([](Signature& s) { (s = with_struct()).parameters[0].fields.clear(); },
                "the struct 'scaling' has no fields");
  check_refused([](Signature& s) { (s = with_struct()).parameters[0].fields[1].name = ""; },
                "a field of the struct 'scaling' has no name");
  check_refused([](Signature& s) { (s = with_struct()).parameters[0].fields[1].name = "out"; },
                "two fields of the struct 'scaling' are named 'out'");
  check_refused([](Signature& s) { (s = with_struct()).parameters[0].fields[1] = example().parameters[0]; },
                "the field 'a' of the struct 'scaling' is neither a scalar nor a pointer");
  check_refused([](Signature& s) { s.kernel = ""; }, "the kernel has no name");
  check_refused([](Signature& s) { s.threads = 0; },
                "the sidecar of kernel 'scale': it has 0 threads, but must have 1 to 1024");
  check_refused([](Signature& s) { s.threads = 1025; }, "it has 1025 threads, but must have 1 to 1024");
  check_refused(
      [](Signature& s) {
        s.cluster = {0, 1, 1};
      },
      "the cluster is 0 x 1 x 1, but must have 1 to 16 CTAs");
  check_refused(
      [](Signature& s) {
        s.cluster = {4, 4, 2};
      },
      "the cluster is 4 x 4 x 2, but must have 1 to 16 CTAs");
  check_refused([](Signature& s) { s.parameters[3].name = "n"; }, "two parameters are named 'n'");
  check_refused([](Signature& s) { s.parameters[3].name = ""; }, "a parameter has no name");
  check_refused([](Signature& s) { s.parameters[0].dtype = DType::f16; },
                "parameter 'a' is f16, but its tensor map is bf16");
  check_refused(
      [](Signature& s) {
        s.parameters[0].tensor_map.box = {128, 64};
      },
      "parameter 'a': tensor map: box[0] = 128 x bf16 = 256 B exceeds the span of swizzle 128");
}

TEST_CASE("kernels are read from files, with the file named in errors") {
  const Folder folder;
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path(name)) << text; };
  FakeDevice device;
  const std::string image = folder.path("scale.cubin");
  write("scale.cubin", "image");
  write("scale.json", to_json(example()));
  CHECK(LoadedKernel::from_file(device, image).signature() == example());
  write("scale.cubin", "corrupt");
  CHECK_ERROR(LoadedKernel::from_file(device, image), image + ": corrupt image (runtime_test.cpp:");
  write("scale.json", "{");
  CHECK_ERROR(LoadedKernel::from_file(device, image), "no JSON: syntax error");
  std::filesystem::remove(folder.path("scale.json"));
  CHECK_ERROR(LoadedKernel::from_file(device, image), "scale.json: cannot be read");
  write("scale.json", to_json(example()));
  std::filesystem::remove(image);
  CHECK_ERROR(LoadedKernel::from_file(device, image), "scale.cubin nor ");
  const std::string name = folder.path("scale");
  CHECK_ERROR(LoadedKernel::from_file(device, name),
              "neither " + name + ".cubin nor " + name + ".ptx exists");
  device.reads_ptx = true;
  write("scale.cubin", "image");
  CHECK_ERROR(LoadedKernel::from_file(device, name),
              name + ".ptx does not exist, and this device runs PTX text, not " + name + ".cubin");
  CHECK_ERROR(LoadedKernel::from_file(device, image), image +
                                                          ": this device runs PTX text, not cubins: " + name +
                                                          ".ptx could be used instead, but does not exist");
  write("scale.ptx", "text");
  CHECK_ERROR(
      LoadedKernel::from_file(device, image),
      image + ": this device runs PTX text, not cubins: give " + name + ".ptx, or " + name + " alone");
  CHECK(LoadedKernel::from_file(device, name).signature() == example());
  CHECK(device.image == "text");
  CHECK(LoadedKernel::from_file(device, name + ".json").signature() == example());
  device.reads_ptx = false;
  LoadedKernel::from_file(device, name);
  CHECK(device.image == "image");
  LoadedKernel::from_file(device, name + ".ptx");
  CHECK(device.image == "text");
}

TEST_CASE("a lazy value is made once for all threads, and again where making it failed") {
  Lazy<int> value;
  CHECK_THROWS_AS(value.get([]() -> int { throw Error("not yet"); }), Error);
  std::atomic<int> made = 0;
  std::vector<std::jthread> threads;
  std::atomic<int> sum = 0;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { sum += value.get([&] { return 10 + made++; }); });
  threads.clear();  // joins the threads
  CHECK(made == 1);
  CHECK(sum == 80);
}

}  // namespace ptxbuilder::test::runtime_test
