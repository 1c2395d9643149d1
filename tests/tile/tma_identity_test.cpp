// Compares tensor copies from global to shared to global memory with a model on the host, byte for byte. The
// cases cover every rank, type and swizzle, boxes that are partly or wholly outside their tensor, reductions,
// and multicast.
//
//   tma_identity_test [--device=emulator|cuda|auto]
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "library_kit.h"
#include "options.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/tma.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"
#include "tma_identity_kit.h"

namespace ptxbuilder::test::tma_identity_test {
using runtime::Address;

namespace {

// --- The test bench ---

class Bench {
 public:
  Bench() : device_(runtime::open_device(device_name)) {}

  runtime::Device& device() { return *device_; }

  // Returns the kernel for a rank, reduction and cluster, which is loaded only once.
  runtime::Program& program(int rank, const std::string& reduction, runtime::Dim3 cluster) {
    bool shared = cluster.x * cluster.y > 1;
    std::string key = fmt::format("{} {} {}x{}", rank, reduction, cluster.x, cluster.y);
    auto& loaded = programs_[key];
    if (!loaded) {
      Signature s;
      s.kernel = "copy";
      s.threads = 32;
      s.cluster = {cluster.x, cluster.y, 1};
      s.dynamic_shared_bytes = kSharedBytes;
      for (const char* name : {"in", "out"})
        s.parameters.push_back({.name = name, .kind = Parameter::Kind::tensor_map});
      for (const char* name : {"job", "dump"})
        s.parameters.push_back({.name = name, .kind = Parameter::Kind::pointer, .dtype = DType::u8});
      loaded = device_->load(kernel_text(rank, reduction, shared), s);
    }
    return *loaded;
  }

  runtime::TensorMap map(const Place& p, Address address) {
    runtime::TensorMapArguments a;
    a.recipe.dtype = p.type;
    a.recipe.box = p.box;
    a.recipe.element_strides = p.element_strides;
    a.recipe.swizzle = p.swizzle;
    a.recipe.oob_fill = p.fill;
    a.address = address;
    a.shape = p.shape;
    a.strides = p.strides();
    a.strides.pop_back();
    return device_->encode(a);
  }

  struct Result {
    Bytes shared, stored;
  };

  // Loads from `in` and stores to `out` at `to`. Returns the shared memory of all CTAs and the contents of
  // `out`.
  Result run(const Place& p, const Bytes& in, const Bytes& out, const std::vector<int32_t>& to,
             const std::string& reduction = "", runtime::Dim3 cluster = {}, uint32_t source = 0,
             uint32_t mask = 1) {
    Job job;
    std::copy(p.at.begin(), p.at.end(), job.at);
    std::copy(to.begin(), to.end(), job.to);
    job.box_bytes = p.box_bytes();
    job.dumped_bytes = (p.box_bytes() + 1023) / 1024 * 1024 + 128;
    job.source = source;
    job.mask = mask;
    REQUIRE(job.dumped_bytes <= kSharedBytes);
    const uint32_t ctas = cluster.x * cluster.y;
    runtime::Buffer din(*device_, in.size()), dout(*device_, out.size()),
        djob = runtime::Buffer::of(*device_, std::vector<Job>{job}), ddump(*device_, job.dumped_bytes * ctas);
    device_->copy_in(din.address(), in.data(), in.size());
    device_->copy_in(dout.address(), out.data(), out.size());
    runtime::TensorMap min = map(p, din.address()), mout = map(p, dout.address());
    Address job_at = djob.address(), dump_at = ddump.address();
    const void* parameters[] = {&min, &mout, &job_at, &dump_at};
    runtime::Launch launch;
    launch.grid = launch.cluster = cluster;
    launch.block = {32, 1, 1};
    launch.dynamic_shared_bytes = kSharedBytes;
    device_->launch(program(static_cast<int>(p.rank()), reduction, cluster), launch, parameters);
    device_->synchronize();
    Result result{Bytes(job.dumped_bytes * ctas), Bytes(out.size())};
    device_->copy_out(result.shared.data(), ddump.address(), result.shared.size());
    device_->copy_out(result.stored.data(), dout.address(), result.stored.size());
    return result;
  }

 private:
  std::unique_ptr<runtime::Device> device_;
  std::map<std::string, std::unique_ptr<runtime::Program>> programs_;
};

// Compares the expected box, surrounded by poison, with the shared memory of a CTA, and returns what is
// wrong. A NaN from the fill may be any NaN; it is then copied into `box`.
std::string compare_shared(const Place& p, const Bytes& in, std::span<const uint8_t> shared, Bytes& box) {
  Bytes expected(shared.size(), kPoison);
  box.assign(p.box_bytes(), 0);
  std::string wrong;
  p.each(p.at, [&](size_t byte, std::optional<size_t> from) {
    const size_t n = width(p.type), at = swizzled(byte, p.swizzle);
    if (from)
      std::memcpy(&box[byte], &in[*from], n);
    else if (p.fill == OobFill::nan && is_nan(&shared[at], p.type))
      std::memcpy(&box[byte], &shared[at], n);
    else if (p.fill == OobFill::nan && wrong.empty())
      wrong = fmt::format("byte {} of the box is not a NaN", byte);
    std::memcpy(&expected[at], &box[byte], n);
  });
  for (size_t i = 0; i < expected.size() && wrong.empty(); ++i)
    if (expected[i] != shared[i])
      wrong = fmt::format("shared memory, byte {}: {:#x} for {:#x}", i, shared[i], expected[i]);
  return wrong;
}

std::string compare_global(const Bytes& expected, const Bytes& got) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != got[i])
      return fmt::format("global memory, byte {}: {:#x} for {:#x}", i, got[i], expected[i]);
  return "";
}

// Returns coordinates that do not begin before the tensor, because stores, unlike loads, must not.
std::vector<int32_t> not_in_front(std::vector<int32_t> at) {
  for (int32_t& c : at) c = std::max(c, 0);
  return at;
}

// Loads a box and stores it in a poisoned tensor, at its own place or at the tensor's edge.
std::string copy_wrong(Bench& bench, const Place& p, uint32_t seed) {
  Bytes in = random_tensor(p, seed), out(in.size(), kPoison), box;
  const std::vector<int32_t> place = not_in_front(p.at);
  Bench::Result result = bench.run(p, in, out, place);
  std::string wrong = compare_shared(p, in, result.shared, box);
  if (!wrong.empty()) return wrong;
  p.each_stored(place, [&](size_t byte, std::optional<size_t> to) {
    if (to) std::memcpy(&out[*to], &box[byte], width(p.type));
  });
  return compare_global(out, result.stored);
}

// --- The places of boxes ---

enum class Position : uint8_t { inside, in_front, behind, mixed, beyond, around };
constexpr std::array kPositions = {Position::inside, Position::in_front, Position::behind,
                                   Position::mixed,  Position::beyond,   Position::around};

// Returns a place for a box of `inner` bytes in its first dimension, which starts at a multiple of 16 bytes.
Place place(int rank, DType type, Swizzle swizzle, uint32_t inner, Position position,
            const std::vector<uint32_t>& element_strides = {1, 1, 1, 1, 1}) {
  constexpr int32_t extents[] = {0, 7, 3, 2, 3};
  Place p{type, swizzle, {}, {}, {}, {}};
  for (int i = 0; i < rank; ++i) {
    const auto element = static_cast<int32_t>(width(type));
    const int32_t step = i == 0 ? 16 / element : 1,
                  n = i == 0 ? static_cast<int32_t>(inner) / element : extents[i];
    auto whole_steps = [&](int32_t x) { return x / step * step; };
    // The tensor is one step shorter than the box at each end, or has room for the box.
    const int32_t extent = position == Position::around ? std::max(1, n - 2 * step) : n + step + 2;
    const int32_t half = std::max(step, whole_steps(n / 2));
    int32_t at = 0;
    switch (position) {
      case Position::inside:
        at = i == 0 ? step : 2;
        break;
      case Position::in_front:
        at = -half;
        break;
      case Position::behind:
        at = whole_steps(extent - n / 2);
        break;
      case Position::mixed:
        at = n == 1 ? 0 : i % 2 == 1 ? extent - n / 2 : -half;
        break;
      case Position::beyond:
        at = i == rank - 1 ? whole_steps(extent + step - 1) : step;
        break;
      case Position::around:
        at = -step;
        break;
    }
    p.box.push_back(static_cast<uint32_t>(n));
    p.element_strides.push_back(element_strides[static_cast<size_t>(i)]);
    p.shape.push_back(static_cast<uint64_t>(extent));
    p.at.push_back(at);
  }
  return p;
}

// Returns the inner extent in bytes of a box that is as wide as its swizzle.
uint32_t inner_extent(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 48 : static_cast<uint32_t>(span_bytes(swizzle));
}

// Copies boxes of an inner extent, of every rank and type, in all places. Returns the number of cases.
uint32_t check_copies(Bench& bench, Swizzle swizzle, uint32_t inner) {
  uint32_t cases = 0;
  for (int rank = 1; rank <= 5; ++rank)
    for (DType type : kTypes)
      for (Position position : kPositions) {
        Place p = place(rank, type, swizzle, inner, position);
        INFO(p.text());  // a failed launch throws
        std::string wrong = copy_wrong(bench, p, cases++);
        CHECK_MESSAGE(wrong.empty(), p.text() << ": " << wrong);
      }
  return cases;
}

}  // namespace

TEST_CASE("global to shared to global, every rank, type and swizzle, inside and outside") {
  Bench bench;
  uint32_t cases = 0;
  for (Swizzle swizzle : kSwizzles) cases += check_copies(bench, swizzle, inner_extent(swizzle));
  CHECK(cases == 4 * 5 * 15 * 6);
  MESSAGE(cases << " copies on " << bench.device().properties().name);
}

// Hardware does not pack the rows of such a box, and the model does not cover their places.
TEST_CASE("a swizzle wider than the box is refused by the emulator") {
  if (device_name == "cuda") return;
  Bench bench;
  for (auto [swizzle, inner] : {std::pair{Swizzle::b32, 16u}, {Swizzle::b64, 32u}, {Swizzle::b128, 64u}})
    CHECK_THROWS(copy_wrong(bench, place(2, DType::bf16, swizzle, inner, Position::inside), 1));
}

TEST_CASE("element strides") {
  Bench bench;
  uint32_t cases = 0;
  for (int rank = 2; rank <= 5; ++rank)
    for (DType type : {DType::u8, DType::bf16, DType::f32, DType::u64})
      for (Swizzle swizzle : {Swizzle::none, Swizzle::b128})
        for (const std::vector<uint32_t>& strides :
             {std::vector<uint32_t>{1, 2, 1, 2, 1}, {1, 3, 2, 1, 2}, {1, 8, 3, 2, 3}})
          for (Position position : kPositions) {
            Place p = place(rank, type, swizzle, inner_extent(swizzle), position, strides);
            std::string wrong = copy_wrong(bench, p, cases++);
            CHECK_MESSAGE(wrong.empty(), p.text() << ": " << wrong);
          }
  CHECK(cases == 4 * 4 * 2 * 3 * 6);
}

TEST_CASE("elements outside are NaN if the map requires it") {
  Bench bench;
  uint32_t cases = 0;
  for (int rank = 1; rank <= 5; ++rank)
    for (DType type : kTypes)
      for (Swizzle swizzle : {Swizzle::none, Swizzle::b64})
        for (Position position : kPositions) {
          if (!is_floating(type)) continue;
          Place p = place(rank, type, swizzle, inner_extent(swizzle), position);
          p.fill = OobFill::nan;
          std::string wrong = copy_wrong(bench, p, cases++);
          CHECK_MESSAGE(wrong.empty(), p.text() << ": " << wrong);
        }
  CHECK(cases == 5 * 5 * 2 * 6);
}

namespace {

// Returns a op b for one element, computed on the host.
template <class T>
T reduced(const std::string& op, T a, T b) {
  if (op == "add") return static_cast<T>(a + b);
  if (op == "min") return std::min(a, b);
  if (op == "max") return std::max(a, b);
  if constexpr (std::is_unsigned_v<T>) {
    if (op == "inc") return a >= b ? 0 : a + 1;
    if (op == "dec") return a == 0 || a > b ? b : a - 1;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == "and") return a & b;
    if (op == "or") return a | b;
    return a ^ b;
  }
  return a;
}

void reduce_element(uint8_t* place, const uint8_t* with, DType type, const std::string& op) {
  auto as = [&]<class T>(T) {
    T a, b;
    std::memcpy(&a, place, sizeof a);
    std::memcpy(&b, with, sizeof b);
    a = reduced(op, a, b);
    std::memcpy(place, &a, sizeof a);
  };
  switch (type) {
    case DType::u32:
      return as(uint32_t{});
    case DType::s32:
      return as(int32_t{});
    case DType::u64:
      return as(uint64_t{});
    case DType::s64:
      return as(int64_t{});
    case DType::f32:
      return as(float{});
    case DType::f64:
      return as(double{});
    default: {  // f16 and bf16, with small integers as values
      std::vector<std::byte> a(2), b(2);
      std::memcpy(a.data(), place, 2);
      std::memcpy(b.data(), with, 2);
      write_element(a.data(), type, reduced(op, read_element(a.data(), type), read_element(b.data(), type)));
      std::memcpy(place, a.data(), 2);
    }
  }
}

// Returns small integers, with signs if the type is signed.
Bytes numbers(const Place& p, uint32_t seed) {
  std::mt19937 engine(seed);
  Bytes bytes(p.tensor_bytes(), kPoison);
  const bool negative = p.type != DType::u32 && p.type != DType::u64;
  for (size_t i = 0; i + width(p.type) <= bytes.size(); i += width(p.type)) {
    const double value = static_cast<double>(engine() % 41) - (negative ? 20 : 0);
    auto put_integer = [&](auto n) { std::memcpy(&bytes[i], &n, sizeof n); };
    if (is_floating(p.type)) {
      std::vector<std::byte> element(width(p.type));
      write_element(element.data(), p.type, value);
      std::memcpy(&bytes[i], element.data(), element.size());
    } else if (width(p.type) == 8) {
      put_integer(static_cast<int64_t>(value));
    } else {
      put_integer(static_cast<int32_t>(value));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("reductions in every type that has them") {
  using enum DType;
  const std::vector<std::pair<std::string, std::vector<DType>>> operations = {
      {"add", {u32, s32, u64, f16, bf16, f32, f64}},
      {"min", {u32, s32, u64, s64, f16, bf16}},
      {"max", {u32, s32, u64, s64, f16, bf16}},
      {"inc", {u32}},
      {"dec", {u32}},
      {"and", {u32, s32, u64}},  // on an H100, s64 is an illegal instruction here
      {"or", {u32, s32, u64}},
      {"xor", {u32, s32, u64}},
  };
  Bench bench;
  uint32_t cases = 0;
  for (const auto& [op, types] : operations)
    for (DType type : types)
      for (int rank = 1; rank <= 5; ++rank)
        for (Swizzle swizzle : {Swizzle::none, Swizzle::b128})
          for (Position position : {Position::inside, Position::in_front, Position::mixed}) {
            Place p =
                place(rank, type, swizzle, swizzle == Swizzle::none ? 64 : inner_extent(swizzle), position);
            Bytes in = numbers(p, cases), out = numbers(p, ++cases + 1000), box;
            const std::vector<int32_t> place = not_in_front(p.at);
            Bench::Result result = bench.run(p, in, out, place, op);
            std::string wrong = compare_shared(p, in, result.shared, box);
            p.each_stored(place, [&](size_t byte, std::optional<size_t> to) {
              if (to) reduce_element(&out[*to], &box[byte], type, op);
            });
            if (wrong.empty()) wrong = compare_global(out, result.stored);
            CHECK_MESSAGE(wrong.empty(), op << " " << p.text() << ": " << wrong);
          }
  CHECK(cases == (7 + 6 + 6 + 1 + 1 + 3 * 3) * 5 * 2 * 3);
}

TEST_CASE("multicast to the CTAs of a mask, and to no other") {
  Bench bench;
  uint32_t cases = 0;
  for (runtime::Dim3 cluster : {runtime::Dim3{2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {4, 1, 1}})
    for (uint32_t mask = 1; mask < 1u << (cluster.x * cluster.y); ++mask)
      for (uint32_t source = 0; source < cluster.x * cluster.y; ++source) {
        Place p = place(2, DType::bf16, Swizzle::b64, 64, Position::mixed);
        Bytes in = random_tensor(p, cases++), out(in.size(), kPoison), box;
        Bench::Result result = bench.run(p, in, out, p.at, "", cluster, source, mask);
        const size_t each = result.shared.size() / (cluster.x * cluster.y);
        for (uint32_t rank = 0; rank < cluster.x * cluster.y; ++rank) {
          std::span<const uint8_t> shared(&result.shared[rank * each], each);
          std::string wrong;
          if (mask >> rank & 1)
            wrong = compare_shared(p, in, shared, box);
          else if (std::any_of(shared.begin(), shared.end(), [](uint8_t b) { return b != kPoison; }))
            wrong = "it is not in the mask, but got bytes";
          CHECK_MESSAGE(wrong.empty(), cluster.x << "x" << cluster.y << ", mask " << mask << ", CTA "
                                                 << source << " loads, CTA " << rank << ": " << wrong);
        }
      }
  CHECK(cases == 2 * (3 * 2) + 2 * (15 * 4));
}

// Tests negative coordinates that are known on the host, and others that are known only on the device.
TEST_CASE("tiles loaded from negative coordinates") {
  Kernel k("negative");
  auto [X, Y, y] = k.params<TensorMap, TensorMap, s32>("X", "Y", "y");
  auto tile = k.shared<f32>({8, 32}, Swizzle128B);
  Barriers loaded(k, {1});
  sync_threads();
  if_(tid_x() == 0, [&] {
    mbarrier_arrive_expect_tx(loaded[0], tile.stage_bytes());
    tma_load(tile[0].on(loaded[0]), X, -4, y);
    barrier_wait(loaded[0], 0);
    tma_store(Y, tile[0], 0, 0);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group(0);
  });
  std::string ptx = ptx_of(k);
  std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  runtime::LoadedKernel kernel(*device, ptx, k.signature());
  std::vector<float> in(64 * 16), out(in.size(), -1.0f);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  runtime::Buffer din = runtime::Buffer::of(*device, in), dout = runtime::Buffer::of(*device, out);
  kernel.launch({.grid = {1}}, {runtime::tensor(din, DType::f32, {64, 16}),
                                runtime::tensor(dout, DType::f32, {64, 16}), runtime::scalar(int32_t{-2})});
  device->synchronize();
  for (size_t row = 0; row < 8; ++row)  // zeros, because the box begins before X
    for (size_t col = 0; col < 32; ++col)
      out[row * 64 + col] = row < 2 || col < 4 ? 0.0f : in[(row - 2) * 64 + col - 4];
  CHECK(dout.copy_out<float>() == out);
}

}  // namespace ptxbuilder::test::tma_identity_test
