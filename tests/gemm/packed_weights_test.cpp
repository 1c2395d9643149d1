// Tests packed weights: unpacking must restore them, products with every form must be right, and each refusal
// has a twin that is accepted.
//
//   packed_weights_test [--device=emulator|cuda|auto]
#include <doctest/doctest.h>

#include "error_kit.h"
#include "kernels/gemm/packed_draw.h"
#include "matmul_kit.h"
#include "options.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::packed_weights_test {
using kernels::MatmulArguments;
using kernels::PackedForm;
using kernels::WeightType;

namespace {

std::vector<PackedForm> forms() {
  std::vector<PackedForm> all;
  for (size_t type = 1; type <= kernels::weight_rows.size(); ++type) {
    all.push_back({static_cast<WeightType>(type), 0, DType::f32});
    for (const uint8_t group : {32, 64, 128})
      for (const DType scales : {DType::f32, DType::f16, DType::bf16})
        all.push_back({static_cast<WeightType>(type), group, scales});
  }
  return all;
}

// Plain weights of a form, which contain every legal number.
struct Plain {
  std::vector<std::byte> weights, scales, zeros;

  Plain(const PackedForm& form, int64_t n, int64_t k) {
    std::mt19937 random(7);
    const int64_t groups = kernels::packed_groups(form, k);
    const kernels::WeightRow& row = form.row();
    for (int64_t i = 0; i < n * k; ++i)
      weights.push_back(static_cast<std::byte>(
          form.type == WeightType::e4m3 ? random() % 0x7f | random() % 2 << 7
                                        : random() % (1U << row.bits) + static_cast<uint32_t>(row.least)));
    if (form.has_scales()) scales.resize(static_cast<size_t>(n * groups * size_of(form.scales)));
    for (std::byte& one : scales) one = static_cast<std::byte>(random());
    if (form.has_zeros()) zeros.resize(static_cast<size_t>(n * groups));
    for (std::byte& one : zeros) one = static_cast<std::byte>(random() % 16);
  }
  kernels::PlainWeights<const std::byte> read() const { return {weights, scales, zeros}; }
};

std::vector<std::byte> packed(const PackedForm& form, int64_t n, int64_t k, const Plain& plain) {
  std::vector<std::byte> bytes(static_cast<size_t>(kernels::packed_bytes(form, n, k)), std::byte{0xff});
  pack_weights(form, n, k, plain.read(), bytes);
  return bytes;
}

}  // namespace

TEST_CASE("unpacking restores packed weights, for every form and size") {
  for (const PackedForm& form : forms())
    for (const auto& [n, k] : {std::pair{1, 1}, {64, 128}, {70, 300}, {129, 96}, {0, 8}, {3, 0}}) {
      const Plain plain(form, n, k);
      const std::vector<std::byte> bytes = packed(form, n, k, plain);
      Plain back(form, n, k);
      for (std::vector<std::byte>* x : {&back.weights, &back.scales, &back.zeros})
        std::ranges::fill(*x, std::byte{0xee});
      unpack_weights(form, n, k, bytes, {back.weights, back.scales, back.zeros});
      CHECK_MESSAGE(
          (back.weights == plain.weights && back.scales == plain.scales && back.zeros == plain.zeros),
          fmt::format("{} {} x {}", text(form), n, k));
    }
}

// A thread's values of wgmma's operand must be in groups of four consecutive words, in order.
TEST_CASE("each thread finds its weights in the places of wgmma's operand") {
  const RegisterLayout layout = wgmma_layout(kernels::kPackedColumns, kernels::kPackedDepth);
  for (const int bits : {4, 8})
    for (int thread = 0; thread < RegisterLayout::kThreads; ++thread)
      for (int value = 0; value < layout.values(); ++value) {
        const auto [word, shift] =
            kernels::place_of(bits, layout.row(thread, value), layout.col(thread, value));
        const int pairs = 16 / bits, own = value / 2 / pairs;
        const bool is_there = word == (own / 4 * RegisterLayout::kThreads + thread) * 4 + own % 4 &&
                              shift == bits * (value / 2 % pairs) + 16 * (value % 2);
        if (!is_there)
          CHECK_MESSAGE(is_there, fmt::format("{} bits, thread {}, value {}", bits, thread, value));
      }
}

TEST_CASE("numbers outside of a type are not packed") {
  const auto said = [](const PackedForm& form, const std::function<void(Plain&)>& change, int64_t n = 2,
                       int64_t k = 160) {
    Plain plain(form, 2, 160);
    change(plain);
    return error_of([&] { (void)packed(form, n, k, plain); });
  };
  const auto same = [](Plain&) {};
  const PackedForm int4 = {WeightType::int4, 128, DType::f16}, uint4 = {WeightType::uint4, 32, DType::f32},
                   e4m3 = {WeightType::e4m3, 0, DType::f32};
  for (const PackedForm& form : {int4, uint4, e4m3}) CHECK(said(form, same) == "");
  CHECK(said(int4, [](Plain& x) {
          x.weights[161] = std::byte{8};
        }).starts_with("packed weights: weight 1 of column 1 is 8; int4 has -8 to 7"));
  CHECK(said(uint4, [](Plain& x) {
          x.weights[0] = std::byte{16};
        }).starts_with("packed weights: weight 0 of column 0 is 16"));
  CHECK(said(uint4, [](Plain& x) {
          x.zeros[6] = std::byte{16};
        }).starts_with("packed weights: zero 1 of column 1 is 16; uint4 has 0 to 15"));
  CHECK(said(e4m3, [](Plain& x) {
          x.weights[3] = std::byte{0xff};
        }).starts_with("packed weights: weight 3 of column 0 is NaN"));
  CHECK(said(int4, [](Plain& x) {
          x.scales.pop_back();
        }).starts_with("packed weights: they have 7 B of scales, but must have 8"));
  CHECK(said(int4, same, 1).starts_with("packed weights: they have 320 B of weights, but must have 160"));
  CHECK(said(int4, same, -1).starts_with("packed weights: n = -1"));
  CHECK(error_of([] {
          (void)kernels::packed_bytes({WeightType::int4, 48, DType::f32}, 8, 8);
        }).starts_with("packed weights: groups of 48 values along k"));
  CHECK(error_of([] {
          (void)kernels::packed_bytes({WeightType::int4, 64, DType::e4m3}, 8, 8);
        }).starts_with("packed weights: the scales are e4m3"));
  CHECK(error_of([] { (void)kernels::packed_bytes({}, 8, 8); }).starts_with("packed weights: type 0"));
  CHECK(error_of([&] {
          (void)kernels::packed_bytes(int4, int64_t{1} << 20, int64_t{1} << 20);
        }).starts_with("packed weights: n = 1048576 and k = 1048576 need more"));
}

// One Matmul makes all calls, which differ only in the form. The model chooses the tile.
TEST_CASE("a product with packed weights is that of the numbers that they represent") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  kernels::Matmul matmul(*device);
  uint64_t seed = 1;
  for (const PackedForm& form : forms())
    for (const auto& [m, n, k] : {std::tuple{1, 72, 200}, {24, 130, 300}}) {
      MatmulCase c;
      c.a = c.b = m == 1 || form.scales == DType::f16 ? DType::f16 : DType::bf16;
      c.d = DType::f32;  // f16 could not represent all results
      c.size = {m, n, k, 1};
      c.packed = form;
      c.column_scales = form.group == 0;
      c.a_k_major = m == 1;
      c.seed = ++seed;
      MatmulTrial trial(*device, c);
      const std::string problem = trial.wrong(trial.run(matmul));
      CHECK_MESSAGE(problem.empty(), fmt::format("{}: {}", text(c), problem));
    }
}

// Some groups have no rows, and some rows belong to no group.
TEST_CASE("groups of rows have packed weights of their own, and may gather their rows") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  kernels::Matmul matmul(*device);
  uint64_t seed = 100;
  for (const PackedForm& form : {PackedForm{WeightType::int4, 32, DType::bf16},
                                 {WeightType::uint4, 128, DType::f32},
                                 {WeightType::int8, 0, DType::f32},
                                 {WeightType::e4m3, 64, DType::f16}})
    for (const auto& [m, n, k, groups] : {std::tuple{9, 72, 200, 7}, {150, 130, 264, 3}, {40, 64, 128, 1}}) {
      MatmulCase c;
      c.d = DType::f32, c.size = {m, n, k, groups}, c.packed = form, c.group_ends = true;
      c.column_scales = form.group == 0, c.bias = m == 9, c.row_scales = m == 40;
      c.activation = m == 9 ? kernels::Activation::silu : kernels::Activation::none;
      for (const bool gathers : {false, true}) {
        c.a_rows = gathers, c.rows_of_a = gathers ? 50 : 0;
        c.seed = ++seed;
        MatmulTrial trial(*device, c);
        const std::string problem = trial.wrong(trial.run(matmul));
        CHECK_MESSAGE(problem.empty(), fmt::format("{}: {}", text(c), problem));
      }
    }
}

TEST_CASE("rows in no group are zeros whatever scales the last group has") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device("emulator");
  kernels::Matmul matmul(*device);
  constexpr int64_t kM = 40, kN = 64, kK = 128;
  const PackedForm form = {WeightType::int4, 128, DType::f32};
  std::vector<std::byte> weights(kN * kK), scales(kN * sizeof(float)),
      packed(kernels::packed_bytes(form, kN, kK));
  for (size_t at = 0; at < scales.size(); at += sizeof(float))
    write_element(&scales[at], DType::f32, std::numeric_limits<double>::infinity());
  pack_weights(form, kN, kK, {weights, scales, {}}, packed);
  const auto a = runtime::Buffer::of(*device, std::vector<uint16_t>(kM * kK, 0x3f80)),
             b = runtime::Buffer::of(*device, packed),
             ends = runtime::Buffer::of(*device, std::vector<int32_t>{10});
  runtime::Buffer d(*device, kM * kN * sizeof(float));
  d.fill(0xff);
  MatmulArguments p;
  p.m = kM, p.n = kN, p.k = kK, p.packed = form;
  p.a.memory = a, p.b.memory = b, p.group_ends = ends, p.d = {.memory = d, .type = DType::f32};
  runtime::Buffer workspace;
  if (const size_t bytes = matmul.workspace_bytes(p))
    p.workspace = workspace = runtime::Buffer(*device, bytes);
  matmul(p);
  device->synchronize();
  std::vector<float> got(kM * kN);
  d.copy_out(std::as_writable_bytes(std::span(got)));
  CHECK(std::ranges::all_of(got.begin() + 10 * kN, got.end(), [](float x) { return x == 0; }));
  CHECK(std::isnan(got[0]));
}

TEST_CASE("invalid combinations with packed weights are refused, and valid ones are accepted") {
  const std::unique_ptr<runtime::Device> device = runtime::open_device("emulator");
  kernels::Matmul matmul(*device);
  const auto said = [&](const std::function<void(MatmulArguments&)>& change) {
    MatmulCase c;
    c.size = {16, 64, 128, 1};
    c.packed = {WeightType::int4, 128, DType::f32};
    MatmulArguments p = arguments_without_memory(c);
    constexpr size_t kApart = 1 << 20;
    runtime::Address next = kApart;
    for (runtime::View* x : {&p.a.memory, &p.b.memory, &p.d.memory}) *x = {next += kApart, kApart};
    change(p);
    return error_of([&] { (void)matmul.workspace_bytes(p); });
  };
  CHECK(said([](MatmulArguments&) {}) == "");
  CHECK(said([](MatmulArguments& p) { p.b_k_major = false, p.b.type = DType::e4m3; }) == "");
  CHECK(said([](MatmulArguments& p) { p.activation = kernels::Activation::silu; }) == "");
  CHECK(said([](MatmulArguments& p) { p.b.memory.address += 16; }) == "");
  const auto refused = [&](const std::function<void(MatmulArguments&)>& change, const char* rule) {
    const std::string error = said(change);
    CHECK_MESSAGE(error.find(rule) != std::string::npos, error);
  };
  refused([](MatmulArguments& p) { p.b.memory.address += 8; }, "packed weights are at");
  refused([](MatmulArguments& p) { p.b.memory.bytes = 100; }, "B");
  refused([](MatmulArguments& p) { p.k = 0; }, "k = 0 and alpha = 1; with packed weights, neither may be 0");
  refused([](MatmulArguments& p) { p.alpha = 0; }, "alpha = 0; with packed weights, neither may be 0");
  refused([](MatmulArguments& p) { p.batches = 2, p.m = 8; },
          "packed weights cannot be used with batches or groups of k");
  refused(
      [](MatmulArguments& p) {
        p.batches = 2, p.groups_of_k = true, p.a_k_major = false, p.group_ends = {64, 8};
      },
      "packed weights cannot be used with batches or groups of k");
  refused([](MatmulArguments& p) { p.batches = 300, p.group_ends = {64, 1200}; }, "B");
  refused(
      [](MatmulArguments& p) {
        p.group_ends = {64, 4}, p.b_addresses = {64, 8};
      },
      "b_addresses cannot be used with packed weights");
  refused([](MatmulArguments& p) { p.packed.group = 16; }, "groups of 16 values along k");
  refused([](MatmulArguments& p) { p.packed.type = static_cast<WeightType>(9); }, "type 9 is not one of");
  refused([](MatmulArguments& p) { p.a.type = DType::e4m3; }, "packed weights with A of e4m3");
  refused(
      [](MatmulArguments& p) {
        p.activation = kernels::Activation::silu, p.use = kernels::ActivationUse::gate;
      },
      "packed weights cannot be used with a gate");
}

}  // namespace ptxbuilder::test::packed_weights_test
