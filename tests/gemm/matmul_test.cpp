// Tests Matmul, the matrix product of any shape: sizes down to 0, types, storage, placement, epilogues,
// refused calls, and the time that a call takes on the host.
//
//   matmul_test [--device=emulator|cuda|auto]
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "clocked_device.h"
#include "error_kit.h"
#include "folder_kit.h"
#include "idle_device.h"
#include "kernels/call/fastest.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/product_form.h"
#include "matmul_kit.h"
#include "options.h"
#include "ptxbuilder/product/epilogue.h"
#include "runtime/open_device.h"
#include "warnings.h"

namespace ptxbuilder::test::matmul_test {
using kernels::Activation;
using kernels::DeviceMatrix;
using kernels::Matmul;
using kernels::MatmulArguments;
using kernels::MatmulOptions;

namespace {

// All cases share one device and one Matmul, so that each kernel is compiled once.
runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

// Tiles are small, so that even small products have several of them.
kernels::GemmTile small_tile(const kernels::GemmOperation& operation, const kernels::GemmSize& size, int) {
  kernels::GemmTile t;
  t.bm = 64;
  t.bn = 32;
  t.consumers = 1;
  t.stages = 2;
  t.swapped = size.m < size.n && !operation.has_block_scales();
  if (operation.is_sparse()) t.swapped = operation.b_metadata;
  return t;
}

Matmul& matmul() {
  static Matmul matmul = [] {
    MatmulOptions options;
    options.choose = small_tile;
    return Matmul(device(), options);
  }();
  return matmul;
}

void check_case(const MatmulCase& c) {
  CAPTURE(text(c));
  MatmulTrial trial(device(), c);
  const std::string problem = trial.wrong(trial.run(matmul()));
  CHECK_MESSAGE(problem.empty(), problem);
}

MatmulCase sized(int64_t m, int64_t n, int64_t k, int64_t batches = 1) {
  MatmulCase c;
  c.size = {m, n, k, batches};
  return c;
}

}  // namespace

TEST_CASE("sizes from 0 on") {
  for (int64_t m : {0, 1, 70})
    for (int64_t n : {0, 1, 40})
      for (int64_t k : {0, 1, 72}) check_case(sized(m, n, k));
  check_case(sized(8, 8, 8, 0));
  check_case(sized(33, 65, 130, 2));
}

TEST_CASE("the tile that the model chooses") {
  Matmul chosen(device());
  MatmulTrial trial(device(), sized(200, 136, 264));
  CHECK(trial.wrong(trial.run(chosen)) == "");
}

TEST_CASE("without a product, the addends remain") {
  for (int64_t batches : {1, 3})
    for (Activation activation : {Activation::none, Activation::relu}) {
      MatmulCase c = sized(20, 72, 0, batches);
      c.beta = -0.5F;
      c.bias = true;
      c.activation = activation;
      check_case(c);
      c.size.k = 40;
      c.alpha = 0;
      check_case(c);
    }
}

TEST_CASE("A and B are not read with alpha = 0, C not with beta = 0") {
  MatmulCase c = sized(16, 16, 16);
  c.alpha = 0;
  c.bias = true;
  MatmulTrial trial(device(), c);
  MatmulArguments p = trial.arguments();
  p.a.memory = p.b.memory = p.c.memory = {};
  CHECK(error_of([&] { matmul()(p); }) == "");
  p.alpha = 1;
  CHECK_ERROR(matmul()(p), "A of bf16: 16 x 16 elements");
  p = trial.arguments();
  p.c.memory = {};
  CHECK(error_of([&] { matmul()(p); }) == "");
  p.beta = 1;
  CHECK_ERROR(matmul()(p), "C of bf16: 16 x 16 elements");
}

TEST_CASE("types") {
  struct Types {
    DType a, b, d;
  };
  for (auto [a, b, d] : {Types{DType::f16, DType::f16, DType::f16},
                         {DType::bf16, DType::bf16, DType::f32},
                         {DType::tf32, DType::tf32, DType::f32},
                         {DType::tf32, DType::tf32, DType::bf16},
                         {DType::e4m3, DType::e4m3, DType::bf16},
                         {DType::e5m2, DType::e4m3, DType::f16},
                         {DType::s8, DType::s8, DType::s32},
                         {DType::u8, DType::s8, DType::f32}}) {
    MatmulCase c = sized(40, 70, 200);
    c.a = a, c.b = b, c.d = d;
    check_case(c);  // many of its rows do not start at a multiple of 16 bytes
    c.fast_accumulation = false;
    if (size_of(a) == 1) check_case(c);
  }
}

TEST_CASE("storage") {
  for (bool a_k_major : {false, true})
    for (bool b_k_major : {false, true})
      for (int64_t extent : {72, 51}) {
        MatmulCase c = sized(extent, extent + 16, extent + 8);
        c.a_k_major = a_k_major;
        c.b_k_major = b_k_major;
        check_case(c);
      }
}

TEST_CASE("operands with strides and addresses that TMA does not support are copied, and others are not") {
  const MatmulCase plain = sized(40, 72, 48);
  Matmul fresh = [] {
    MatmulOptions options;
    options.choose = small_tile;
    return Matmul(device(), options);
  }();
  auto check_fresh = [&](const MatmulCase& c, bool copies) {
    CAPTURE(text(c));
    MatmulTrial trial(device(), c);
    CHECK(trial.wrong(trial.run(fresh)) == "");
    CHECK((fresh.workspace_bytes(trial.arguments()) > 0) == copies);
  };
  MatmulCase c = plain;
  c.a_lie.gap = c.b_lie.gap = c.d_lie.gap = 16;
  c.a_lie.offset = c.b_lie.offset = c.d_lie.offset = 8;
  check_fresh(c, false);
  c = sized(1, 72, 48);  // one row, so the row stride is irrelevant
  c.a_lie.gap = 1;
  check_fresh(c, false);
  c = plain;
  c.beta = 2;
  c.c_lie.offset = c.c_lie.gap = 1;  // C is read in place
  check_fresh(c, false);
  c = plain;
  c.a_lie.offset = 1;
  check_fresh(c, true);
  c.b_lie.gap = 3;
  check_fresh(c, true);
  c.d_lie = {.offset = 5, .gap = 9};
  check_fresh(c, true);
  c.beta = 2;
  c.in_place = true;
  check_fresh(c, true);
}

TEST_CASE("a D that TMA cannot store as a whole needs no workspace, and nothing around it is written") {
  for (DType type : {DType::bf16, DType::f32, DType::e4m3})
    for (int64_t n : {1, 7, 33, 72, 129})
      for (int64_t batches : {1, 2})
        for (bool aligned : {false, true}) {
          const int64_t unit = 16 / size_of(type);
          MatmulCase c = sized(70, n, 64, batches);
          c.d = type;
          if (aligned)
            c.d_lie.gap = (unit - n % unit) % unit;
          else
            c.d_lie.offset = 1;
          MatmulTrial trial(device(), c);
          CHECK(matmul().workspace_bytes(trial.arguments()) == 0);
          for (int call = 0; call < 2; ++call) {  // the product is known in the second call
            CAPTURE(text(c));
            const std::string problem = trial.wrong(trial.run(matmul()));
            CHECK_MESSAGE(problem.empty(), problem);
          }
        }
  MatmulCase apart = sized(70, 33, 64, 2);
  apart.d_lie.batch_gap = 1;
  MatmulTrial trial(device(), apart);
  CHECK(matmul().workspace_bytes(trial.arguments()) > 0);
  CHECK(trial.wrong(trial.run(matmul())) == "");
}

TEST_CASE("long rows and many rows are copied whole") {
  MatmulCase c = sized(3, 2100, 5);
  check_case(c);
  c = sized(1100, 7, 3);
  check_case(c);
  for (DType type : {DType::tf32, DType::e4m3}) {
    c = sized(5, 9, 1100);
    c.a = c.b = type;
    c.a_lie.gap = c.b_lie.gap = 1;
    c.d = DType::f32;
    check_case(c);
  }
}

TEST_CASE("batches") {
  MatmulCase c = sized(33, 40, 72, 3);
  c.bias = true;
  check_case(c);
  c.a_lie.batch_gap = c.b_lie.batch_gap = 8;
  c.d_lie = {.offset = 8, .gap = 8, .batch_gap = 16};
  check_case(c);
  c.beta = 0.5F;
  c.c_lie = {.offset = 1, .gap = 2, .batch_gap = 3};
  check_case(c);
  c.a_lie.batch_gap = c.b_lie.batch_gap = c.d_lie.batch_gap = 1;
  check_case(c);
  c.in_place = true;
  check_case(c);
  c.activation = Activation::silu;
  c.in_place = false;
  c.c_lie = {};
  check_case(c);
}

TEST_CASE("epilogues") {
  MatmulCase c = sized(70, 41, 100);
  for (size_t number = 0; number < kernels::activation_words.size(); ++number)
    for (bool bias : {false, true})
      for (float beta : {0.0F, -1.5F}) {
        c.activation = static_cast<Activation>(number);
        c.bias = bias;
        c.beta = beta;
        c.alpha = bias ? 0.25F : 1;
        c.in_place = c.activation == Activation::gelu;
        check_case(c);
      }
}

TEST_CASE("parts of one larger matrix, side by side") {
  // A is columns 0 to 47 of a matrix with 128 columns, and D is columns 64 to 103.
  auto& dev = device();
  const int64_t m = 50, n = 40, k = 48, columns = 128;
  std::vector<uint16_t> whole(static_cast<size_t>(m * columns), 0x3f80),
      ones(static_cast<size_t>(n * k), 0x3f80);
  runtime::Buffer at = runtime::Buffer::of(dev, whole), b = runtime::Buffer::of(dev, ones);
  MatmulArguments p;
  p.m = m, p.n = n, p.k = k;
  p.a = {.memory = at, .stride = columns};
  p.b = {.memory = b};
  p.d = {.memory = at.part(2 * 64, at.bytes() - 2 * 64), .stride = columns};
  matmul()(p);
  dev.synchronize();
  const auto got = at.copy_out<uint16_t>();
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t column = i % columns;
    wrong += got[i] != (column >= 64 && column < 104 ? 0x4240 : 0x3f80);  // bf16 of 48 and of 1
  }
  CHECK(wrong == 0);
  p.d.memory = at.part(2 * 40, at.bytes() - 2 * 40);
  CHECK_ERROR(matmul()(p), "matmul: D overlaps A, which is read while D is written");
  p.m = m - 1;
  p.d.memory = at.part(2 * 100, at.bytes() - 2 * 100);  // each row of D ends within the next row of A
  CHECK_ERROR(matmul()(p), "matmul: D overlaps A, which is read while D is written");
  p.m = m;
  // The batches are heads, which are side by side in each row.
  std::vector<uint16_t> heads(static_cast<size_t>(m * columns), 0x3f80);
  runtime::Buffer out = runtime::Buffer::of(dev, heads);
  p.batches = 2;
  p.b = {.memory = b, .batch_stride = 0};
  runtime::Buffer two(dev, 2 * b.bytes());
  two.copy_in(ones);
  two.copy_in(ones, b.bytes());
  p.b.memory = two;
  p.a = {.memory = out, .stride = columns, .batch_stride = 64};
  p.d = {.memory = at, .stride = columns, .batch_stride = 40};
  matmul()(p);
  dev.synchronize();
  const auto both = at.copy_out<uint16_t>();
  wrong = 0;
  for (size_t i = 0; i < both.size(); ++i) wrong += (both[i] == 0x4240) != (i % columns < 104);
  CHECK(wrong == 0);
  p.d.batch_stride = 39;
  CHECK_ERROR(matmul()(p), "the batch stride is 39 elements, but must be at least the 40 of a row");
  p.m = 49;
  p.d.batch_stride = 88;  // 88 + 40 columns are the whole row
  CHECK(error_of([&] { matmul()(p); }) == "");
  p.d.batch_stride = 90;
  CHECK_ERROR(matmul()(p), "49 rows of 40 in 2 batches overlap");
}

TEST_CASE("refused calls, and similar calls that are accepted") {
  const MatmulCase c = [] {
    MatmulCase c = sized(16, 24, 32);
    c.beta = 1;
    c.bias = true;
    return c;
  }();
  MatmulTrial trial(device(), c);
  const MatmulArguments good = trial.arguments();
  REQUIRE(error_of([&] { matmul()(good); }) == "");
  struct Wrong {
    const char* phrase;
    std::function<void(MatmulArguments&)> change;
  };
  const Wrong all[] = {
      {"matmul: m = -1; sizes must be 0 to 2^31 - 4096", [](auto& p) { p.m = -1; }},
      {"matmul: n = 4294967296; sizes must be 0 to 2^31 - 4096", [](auto& p) { p.n = int64_t{1} << 32; }},
      {"matmul: batches = -2", [](auto& p) { p.batches = -2; }},
      {"matmul: A of bf16: the row stride is 31 elements, but must be at least the 32 of a row",
       [](auto& p) { p.a.stride = 31; }},
      {"the row stride is 549755813888 elements of 2 B, but a tensor map supports less than 2^40 B",
       [](auto& p) { p.a.stride = int64_t{1} << 39; }},
      {"the row stride is 9223372036854775807 elements", [](auto& p) { p.a.stride = INT64_MAX; }},
      {"matmul: B of bf16: 24 x 32 elements with a row stride of 33, 1 batches",
       [](auto& p) { p.b.stride = 33; }},
      {"need 1536 B, but the memory has 1535 B", [](auto& p) { p.b.memory.bytes -= 1; }},
      {"must be a multiple of the 2 B of an element", [](auto& p) { p.a.memory.address += 1; }},
      {"matmul: D of bf16: the address", [](auto& p) { p.d.memory.address -= 1; }},
      {"matmul: C of f32: it must be bf16 if D is bf16", [](auto& p) { p.c.type = DType::f32; }},
      {"matmul: C of bf16: 16 rows in all batches and a stride of 4294967296 elements",
       [](auto& p) {
         p.c.stride = int64_t{1} << 32;
         p.c.memory.bytes = size_t{1} << 40;
       }},
      {"matmul: bias has 47 B", [](auto& p) { p.bias.bytes -= 1; }},
      {"matmul: bias has 48 B", [](auto& p) { p.bias.address += 1; }},
      {"matmul: D overlaps B, which is read while D is written", [](auto& p) { p.d.memory = p.b.memory; }},
      {"matmul: D overlaps bias",
       [](auto& p) { p.bias = {.address = p.d.memory.address + 16, .bytes = 48}; }},
      {"matmul: D overlaps a part of C, but is not C itself",
       [](auto& p) { p.d.memory = {.address = p.c.memory.address - 16, .bytes = p.c.memory.bytes}; }},
      {"A is f32, but must be f16, bf16, tf32, e4m3, e5m2, s8 or u8",
       [](auto& p) {
         p.a.type = DType::f32;
         p.a.memory.bytes = 1 << 20;
       }},
      {"A of f16 and B of bf16; the types must be equal", [](auto& p) { p.a.type = DType::f16; }},
      {"A of e4m3 stored along m",
       [](auto& p) {
         p.a.type = p.b.type = DType::e4m3;
         p.a_k_major = false;
       }},
      {"D of s32 from A of bf16",
       [](auto& p) {
         p.d.type = p.c.type = DType::s32;
         p.c.memory.bytes = p.d.memory.bytes = p.bias.bytes = 1 << 20;
         p.c.memory = p.d.memory;
       }},
  };
  for (const Wrong& wrong : all) {
    MatmulArguments p = good;
    wrong.change(p);
    CHECK_ERROR(matmul()(p), wrong.phrase);
  }
  MatmulArguments p = good;
  p.m = 0;  // nothing is computed, but the types must still be valid for a product
  CHECK(error_of([&] { matmul()(p); }) == "");
  p.a.type = DType::f64;
  CHECK_ERROR(matmul()(p), "A is f64");
  const unsigned line = __LINE__ + 1;
  CHECK_ERROR(matmul()(p), fmt::format("matmul_test.cpp:{}", line));
  p = good;
  p.beta = 0;
  p.bias = {};
  p.m = p.n = 1;
  p.batches = (int64_t{1} << 31) - 4096;  // this many batches need more memory than there is
  CHECK_ERROR(matmul()(p), "the memory has");
}

TEST_CASE("a known product loads nothing, and encodes its tensor maps once") {
  IdleDevice idle;
  Matmul product(idle);
  MatmulCase c = sized(64, 64, 64, 2);
  c.bias = true;
  c.beta = 2;
  MatmulTrial trial(idle, c);
  product(trial.arguments());
  const int loads = idle.loads, encoded = idle.encoded;
  for (int call = 0; call < 10; ++call) product(trial.arguments());
  CHECK(idle.loads == loads);
  CHECK(idle.encoded == encoded + 3);  // the stored form is encoded once, since its addresses do not change
  CHECK(idle.launches == 11);
  c.a_lie.offset = c.b_lie.offset = c.d_lie.offset = 1;
  MatmulTrial moved(idle, c);
  const MatmulArguments p = moved.arguments(product);
  for (int call = 0; call < 10; ++call) product(p);
  CHECK(idle.launches == 11 + 2 * 10);  // one launch copies A and B, and threads store D
}

TEST_CASE("a product that is known only by its rows encodes nothing, though its operands are copied") {
  IdleDevice idle;
  Matmul product(idle);
  MatmulCase c = sized(64, 64, 60);  // rows of 120 bytes
  c.bias = true, c.beta = 2;
  MatmulTrial trial(idle, c);
  const MatmulArguments p = trial.arguments(product);
  for (int call = 0; call < 2; ++call) product(p);
  const int encoded = idle.encoded;
  for (int call = 0; call < 10; ++call) product(p);
  CHECK(idle.launches == 2 * 12);
  CHECK(idle.encoded == encoded);
  MatmulArguments q = p;
  q.workspace.address = 0;
  CHECK_ERROR(product(q), "at 0x0");
  q = p;
  q.workspace.address = p.d.memory.address;
  CHECK_ERROR(product(q), "overlaps D: give it memory of its own");

  // A copy that is needed only because of an address must not be reused for products with other addresses.
  c = sized(64, 64, 64);
  MatmulTrial aligned(idle, c);
  c.a_lie.offset = 1;
  MatmulTrial moved(idle, c);
  MatmulArguments r = moved.arguments(product);
  idle.launches = 0;
  product(r);
  CHECK(idle.launches == 2);
  const MatmulArguments s = aligned.arguments(product);
  r.a = s.a;
  product(r);
  product(r);
  CHECK(idle.launches == 2 + 2);
}

TEST_CASE("a known product copies the operands of each call, from and to their current places") {
  Matmul known = [] {
    MatmulOptions options;
    options.choose = small_tile;
    return Matmul(device(), options);
  }();
  for (int64_t batches : {1, 2})
    for (bool beta : {false, true}) {
      MatmulCase c = sized(70, 40, 61, batches);
      c.alpha = 0.5F;
      if (beta) {
        c.beta = 2;
        c.c_lie.batch_gap = 24;  // C is also copied if there are several batches
      }
      std::vector<std::unique_ptr<MatmulTrial>> trials;
      for (int round = 0; round < 2; ++round)
        for (size_t i = 0; i < 3; ++i) {
          if (round == 0) {
            ++c.seed;
            trials.push_back(std::make_unique<MatmulTrial>(device(), c));
          }
          CAPTURE(text(c));
          CHECK(trials[i]->wrong(trials[i]->run(known)) == "");
        }
    }
}

TEST_CASE("a known product accepts other matrices and scalars, and is checked where necessary") {
  MatmulCase c = sized(48, 40, 72, 2);
  c.bias = true;
  for (const auto& [alpha, beta] :
       {std::pair(0.25F, 2.0F), {-1.5F, 0.5F}, {1.0F, 0.5F}, {0.0F, 1.0F}, {3.0F, 0.0F}}) {
    c.alpha = alpha, c.beta = beta;
    for (bool in_place : {false, true, false}) {
      c.in_place = in_place && beta != 0;
      ++c.seed;
      check_case(c);
    }
  }
  c.alpha = 2, c.beta = 1;
  MatmulTrial trial(device(), c);
  MatmulArguments p = trial.arguments();
  matmul()(p);
  matmul()(p);
  MatmulArguments q = p;
  q.d = p.a, q.d.stride = p.d.stride, q.d.batch_stride = p.d.batch_stride;
  CHECK_ERROR(matmul()(q), "matmul: D overlaps A");
  q = p, q.bias = p.d.memory;
  CHECK_ERROR(matmul()(q), "matmul: D overlaps bias");
  q = p, q.c.memory.address = p.d.memory.address + 16;
  CHECK_ERROR(matmul()(q), "matmul: ");
  q = p, q.a.memory.address += 2;
  CHECK_ERROR(matmul()(q), "this call needs a workspace");
  q = p, q.bias.address += 1;
  CHECK_ERROR(matmul()(q), "matmul: bias has");
}

TEST_CASE("a product with every operand is known like a plain one, and uses those of each call") {
  MatmulCase c = sized(64, 72, 64, 2);
  c.activation = Activation::silu, c.use = kernels::ActivationUse::slope, c.beta = 0.5F;
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  c.name = kernels::OperandRole::role > kernels::OperandRole::block_factor;
#include "kernels/gemm/product.def"
  IdleDevice idle;
  Matmul product(idle);
  MatmulTrial trial(idle, c);
  product(trial.arguments());
  const int loads = idle.loads, encoded = idle.encoded;
  for (int call = 0; call < 10; ++call) product(trial.arguments());
  CHECK(idle.loads == loads);
  CHECK(idle.encoded == encoded + 3);
  CHECK(idle.launches == 11);

  for (int call = 0; call < 3; ++call) {
    c.seed += 1, c.d_scale_is = static_cast<float>(call + 1);
    check_case(c);
  }
  MatmulTrial known(device(), c);
  const MatmulArguments p = known.arguments();
  matmul()(p);
  for (const kernels::ProductOperandRow& row : kernels::product_operands) {
    if (row.role <= kernels::OperandRole::block_factor)
      continue;  // the operand belongs to another kind of product
    CAPTURE(std::string(row.name));
    MatmulArguments q = p;
    q.memory_of(row.operand).address = p.d.memory.address;
    if (row.operand != kernels::ProductOperand::c)
      CHECK_ERROR(matmul()(q), fmt::format("D overlaps {}", row.shown));
    if (row.is_written()) continue;
    q = p, q.amax.address = p.memory_of(row.operand).address;
    CHECK_ERROR(matmul()(q), fmt::format("amax overlaps {}", row.shown));
  }
}

// TMA cannot load scales in place unless m and the number of blocks of k are multiples of 4.
TEST_CASE("scales of blocks multiply the sums of each 128 of k") {
  MatmulCase c = sized(72, 144, 400);
  c.a = c.b = DType::e4m3;
  c.a_scales_1x128 = c.b_scales_128x128 = true;
  check_case(c);
  c.size = {67, 150, 300, 2}, c.alpha = 0.5F, c.bias = true, c.d = DType::f32;
  check_case(c);
  c.b_scales_128x128 = false, c.b_scales_1x128 = true;
  check_case(c);
  c.group_ends = true, c.size.batches = 5, c.activation = Activation::silu,
  c.use = kernels::ActivationUse::gate;
  check_case(c);
  c.size = {8, 0, 128, 1}, c.group_ends = false;
  check_case(c);

  MatmulCase wrong = sized(64, 64, 128);
  const auto refused = [&](const std::string& words) {
    MatmulTrial trial(device(), wrong);
    CHECK_ERROR(matmul()(trial.arguments()), words);
  };
  wrong.a_scales_1x128 = wrong.b_scales_128x128 = true;
  refused("block scales with A of bf16 and B of bf16");
  wrong.a = wrong.b = DType::e4m3, wrong.b_scales_128x128 = false;
  refused("only A has block scales");
  wrong.a_scales_1x128 = false, wrong.b_scales_1x128 = true;
  refused("only B has block scales");
  wrong.a_scales_1x128 = wrong.b_scales_128x128 = true;
  refused("B has both 1x128 and 128x128 block scales");
  wrong.b_scales_1x128 = false;
  MatmulTrial trial(device(), wrong);
  MatmulArguments p = trial.arguments();
  p.a_scales_1x128.bytes -= 4;
  CHECK_ERROR(matmul()(p), "a_scales_1x128");
  p = trial.arguments(), p.b_scales_128x128.address = p.d.memory.address;
  CHECK_ERROR(matmul()(p), "D overlaps b_scales_128x128");
}

TEST_CASE("a sparse A or B stores two of every four values along k") {
  for (const bool of_a : {true, false})
    for (const DType type : {DType::bf16, DType::f16, DType::e4m3, DType::s8}) {
      MatmulCase c = sized(150, 136, 200);
      c.a = c.b = type, (of_a ? c.a_metadata : c.b_metadata) = true;
      if (type == DType::s8) c.d = DType::s32;
      check_case(c);
    }
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 4}, {64, 256, 64}, {257, 40, 516}, {40, 257, 1000}})
    for (const bool of_a : {true, false}) {
      MatmulCase c = sized(m, n, k);
      (of_a ? c.a_metadata : c.b_metadata) = true;
      check_case(c);
      c.size.batches = 3, c.d = DType::f32, c.alpha = 0.5F, c.bias = c.row_scales = true;
      c.activation = Activation::silu;
      check_case(c);
      c.a_lie.gap = c.b_lie.gap = 3;  // A and B are both copied
      check_case(c);
    }
  MatmulCase c = sized(100, 128, 128);
  c.b_metadata = c.group_ends = true, c.size.batches = 5;  // each group has its own sparse matrix
  check_case(c);
  c.a_rows = true, c.rows_of_a = 30;
  check_case(c);
  c = sized(100, 128, 128), c.a_metadata = true, c.alpha = 0;
  check_case(c);

  MatmulCase wrong = sized(64, 64, 128);
  const auto refused = [&](const std::string& words) {
    MatmulTrial trial(device(), wrong);
    CHECK_ERROR(matmul()(trial.arguments()), words);
  };
  MatmulArguments p = [&] {
    wrong.a_metadata = true;
    return MatmulTrial(device(), wrong).arguments();
  }();
  p.b_metadata = p.a_metadata;
  CHECK_ERROR(matmul()(p), "gemm: A and B are both sparse, but the tensor cores accept one sparse operand");
  p.b_metadata = {}, p.k = 64;  // k is halved, so that the number of bytes stays equal
  p.a = {.memory = p.a.memory, .type = DType::tf32}, p.b = {.memory = p.b.memory, .type = DType::tf32};
  CHECK_ERROR(matmul()(p), "gemm: a sparse A cannot be tf32; it must be f16, bf16, e4m3, e5m2, s8 or u8");
  p.a.type = p.b.type = DType::bf16, p.a_k_major = false;
  CHECK_ERROR(
      matmul()(p),
      "gemm: a sparse A cannot be stored along m: store it along k, where two of every four values are kept");
  p.a_k_major = true, p.k = 126;
  CHECK_ERROR(matmul()(p), "matmul: k = 126 with a sparse A; k must be a multiple of 4");
  p.k = 128, p.a_metadata.bytes -= 4;
  CHECK_ERROR(matmul()(p), "a_metadata");
  p.a_metadata = {p.d.memory.address, 1024};
  CHECK_ERROR(matmul()(p), "D overlaps a_metadata");
  wrong.a_rows = true, wrong.rows_of_a = 64;
  refused("gemm: a sparse A cannot be used with groups or a_rows");
  wrong.a_rows = false, wrong.rows_of_a = 0;
  wrong.a = wrong.b = DType::e4m3, wrong.a_scales_1x128 = wrong.b_scales_128x128 = true;
  refused("gemm: a sparse A cannot be used with block scales");
  wrong = sized(64, 64, 128);
  wrong.b_metadata = true, wrong.activation = Activation::silu, wrong.use = kernels::ActivationUse::gate;
  refused("gemm: a sparse B cannot be used with a gate");
}

// CTAs share B, and each gathers its own rows of A.
TEST_CASE("clusters gather rows of A and share B") {
  for (const char* tile : {"128x64x64_3_2x1", "64x40x64_2_4x1_w1", "64x64x64_3_2x1_pp", "128x64x64_1_2x1",
                           "128x40x64_3_1x2_swap"}) {
    kernels::MatmulOptions options;
    options.multiprocessors = 6;
    options.choose = [tile](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
      return kernels::parse_tile(tile);
    };
    Matmul other(device(), options);
    for (const bool has_groups : {false, true}) {
      MatmulCase c = sized(330, 150, 264, has_groups ? 4 : 1);
      c.a_rows = true, c.rows_of_a = 90, c.group_ends = has_groups;
      MatmulTrial trial(device(), c);
      const std::string problem = trial.wrong(trial.run(other));
      CHECK_MESSAGE(problem.empty(), fmt::format("{}: {}", tile, problem));
    }
  }
  kernels::GemmOperation o;
  o.a_rows = true;
  for (const char* tile : {"128x64x64_3_1x2", "128x40x64_3_2x1_swap"})
    CHECK_ERROR(kernels::gemm(o, kernels::parse_tile(tile)),
                "the CTAs of a cluster cannot share A with a_rows");
}

// Half of the threads copy rows if the number of rows of a tile is not a multiple of 16.
TEST_CASE("rows of A are those that an index names, in any order and number") {
  MatmulCase c = sized(150, 72, 136);
  c.a_rows = true;
  for (const int64_t rows : {1, 40, 300}) {
    c.rows_of_a = rows;
    check_case(c);
  }
  c = sized(150, 72, 70), c.a_rows = true, c.rows_of_a = 1;  // rows are not a multiple of 16 bytes
  check_case(c);
  c = sized(150, 72, 136), c.a_rows = true, c.rows_of_a = 300;
  c.a_lie.gap = 3, c.bias = true, c.alpha = 0.5F, c.row_scales = true;  // A is copied
  check_case(c);
  c.group_ends = true, c.size.batches = 5, c.activation = Activation::silu,
  c.use = kernels::ActivationUse::gate;
  check_case(c);
  c.alpha = 0;  // alpha is 0, so the rows do not matter
  check_case(c);
  for (const int64_t m : {1, 7, 24, 72}) {
    c = sized(m, 200, 64), c.a_rows = true, c.rows_of_a = 50;
    check_case(c);
    c.a = c.b = DType::e4m3, c.d = DType::f32;
    check_case(c);
  }

  for (const bool blocks : {false, true}) {  // with and without block scales, which use groups
    c = sized(150, 72, 400), c.a = c.b = DType::e4m3, c.a_rows = true, c.rows_of_a = 40,
    c.a_scales_1x128 = true;
    (blocks ? c.b_scales_128x128 : c.b_scales_1x128) = true;
    check_case(c);
    c.size.batches = 5, c.group_ends = true;
    check_case(c);
    c.group_ends = false, c.group_counts = true;
    check_case(c);
  }

  c = sized(40, 72, 64), c.a_rows = true, c.rows_of_a = 30;
  MatmulTrial trial(device(), c);
  const MatmulArguments p = trial.arguments();
  MatmulArguments q = p;
  q.a_rows.bytes -= 4;
  CHECK_ERROR(matmul()(q), "matmul: a_rows has");
  q = p, q.a_rows.address += 2;
  CHECK_ERROR(matmul()(q), "matmul: a_rows has");
  q = p, q.rows_of_a = 31;
  CHECK_ERROR(matmul()(q), "matmul: A of bf16");
  q = p, q.rows_of_a = -1;
  CHECK_ERROR(matmul()(q), "matmul: rows_of_a = -1");
  q = p, q.a_rows = {};
  CHECK_ERROR(matmul()(q), "matmul: rows_of_a = 30 needs a_rows");
  q = p, q.a_rows.address = p.d.memory.address;
  CHECK_ERROR(matmul()(q), "D overlaps a_rows");
  q = p, q.a_k_major = false, q.a.stride = 30;
  CHECK_ERROR(matmul()(q), "gemm: a_rows cannot be used with A stored along m");
  q = p, q.batches = 2, q.m = 20, q.n = 36, q.rows_of_a = 15;
  q.a.batch_stride = q.b.batch_stride = q.d.batch_stride = 0;
  CHECK_ERROR(matmul()(q), "gemm: a_rows cannot be used with batches");
}

TEST_CASE("an index selects rows of D, and others do not change") {
  MatmulCase c = sized(150, 72, 136);
  c.d_rows = true;
  check_case(c);
  c.d = DType::f32, c.bias = true, c.row_scales = true;
  check_case(c);
  c.d = DType::bf16, c.group_ends = true, c.size = {150, 96, 136, 5}, c.activation = Activation::silu,
  c.use = kernels::ActivationUse::gate;
  check_case(c);
  c.a_rows = true, c.rows_of_a = 30;
  check_case(c);
  for (const int64_t m : {1, 7, 24}) {  // swapped tiles
    c = sized(m, 200, 64), c.d_rows = true, c.d_lie.gap = 8;
    check_case(c);
  }
  c.size.k = 0;  // rows of zeros
  check_case(c);

  c = sized(40, 72, 64), c.d_rows = true;
  MatmulTrial trial(device(), c);
  const MatmulArguments p = trial.arguments();
  MatmulArguments q = p;
  q.d_rows.bytes -= 4;
  CHECK_ERROR(matmul()(q), "matmul: d_rows has");
  q = p, q.rows_of_d += 1;
  CHECK_ERROR(matmul()(q), "matmul: D of bf16");
  q = p, q.d_rows = {};
  CHECK_ERROR(matmul()(q), "matmul: rows_of_d = 49 needs d_rows");
  q = p, q.n = 71;
  CHECK_ERROR(matmul()(q), "matmul: D of bf16, with d_rows");
  q = p, q.beta = 1, q.c = q.d;
  CHECK_ERROR(matmul()(q), "gemm: d_rows cannot be used with beta C");
}

// Counts are sometimes out of range, and rows beyond a count must not change.
TEST_CASE("groups with equal room have the numbers of rows that are in memory") {
  for (const auto& [m, groups] : {std::pair{150, 5}, {42, 7}, {300, 1}, {9, 9}}) {
    MatmulCase c = sized(m, 72, 136, groups);
    c.group_counts = true;
    for (uint64_t seed = 1; seed < 4; ++seed) {
      c.seed = seed;
      check_case(c);
    }
    c.bias = c.row_scales = c.column_scales = true, c.activation = Activation::silu;
    check_case(c);
    c.a_rows = true, c.rows_of_a = 40;
    check_case(c);
    c.size.n = 96, c.d_rows = true;
    if (m > 64) c.use = kernels::ActivationUse::gate;  // gates; tiles of other types are swapped
    check_case(c);
    c.d_rows = false, c.add_to_rows = true, c.d = DType::f32;
    check_case(c);
  }
  MatmulCase c = sized(40, 72, 64, 4);
  c.group_counts = true;
  MatmulTrial trial(device(), c);
  const MatmulArguments p = trial.arguments();
  MatmulArguments q = p;
  q.group_counts.bytes -= 4;
  CHECK_ERROR(matmul()(q), "matmul: group_counts has");
  q = p, q.n = 71;
  CHECK_ERROR(matmul()(q), "matmul: D of bf16, with group_counts");
  q = p, q.m = 39;
  CHECK_ERROR(matmul()(q), "matmul: m = 39 with group_counts of 4 groups");
  q = p, q.group_ends = q.group_counts;
  CHECK_ERROR(matmul()(q), "gemm: group_ends and group_counts");
  q = p, q.groups_of_k = true, q.a_k_major = q.b_k_major = false, q.m = 8, q.k = 32, q.n = 8;
  for (kernels::DeviceMatrix* x : {&q.a, &q.b, &q.d}) x->stride = x->batch_stride = 0;
  CHECK_ERROR(matmul()(q), "gemm: group_counts cannot be used with k in groups");
}

TEST_CASE("each group has the matrix of B that an address in memory names") {
  for (const auto& [m, groups] : {std::pair{150, 5}, {24, 7}, {300, 1}, {9, 9}}) {
    MatmulCase c = sized(m, 72, 136, groups);
    c.group_ends = c.b_addresses = true;
    for (const bool k_major : {true, false}) {
      c.b_k_major = k_major;
      check_case(c);
    }
    c.b_lie = {8, 16, 24}, c.bias = c.column_scales = true, c.activation = Activation::silu;
    check_case(c);
    c.a_rows = true, c.rows_of_a = 40;
    check_case(c);
    c.group_ends = false, c.group_counts = m % groups == 0, c.group_ends = !c.group_counts;
    c.size.n = 96, c.add_to_rows = true;
    check_case(c);
  }
  MatmulCase c = sized(150, 200, 400, 4);  // all groups have their block scales and metadata in one tensor
  c.group_ends = c.b_addresses = true, c.a = c.b = DType::e4m3;
  c.a_scales_1x128 = c.b_scales_128x128 = true;
  check_case(c);
  c = sized(70, 72, 64, 3), c.group_ends = c.b_addresses = c.b_metadata = true;
  check_case(c);
  c.size.k = 0, c.b_metadata = false;
  check_case(c);

  c = sized(40, 72, 64, 4), c.group_ends = c.b_addresses = true;
  MatmulTrial trial(device(), c);
  const MatmulArguments p = trial.arguments();
  MatmulArguments q = p;
  q.b_addresses.bytes -= 8;
  CHECK_ERROR(matmul()(q), "matmul: b_addresses has");
  q = p, q.b_addresses.address += 4;
  CHECK_ERROR(matmul()(q), "matmul: b_addresses has");
  q = p, q.group_ends = {}, q.batches = 1;
  CHECK_ERROR(matmul()(q), "gemm: b_addresses needs groups of rows");
  q = p, q.b.memory.address += 2;
  CHECK_ERROR(matmul()(q), "the matrices and their rows must begin at multiples of 16 B");
  q = p, q.k = 60, q.a.stride = q.b.stride = 60;
  CHECK_ERROR(matmul()(q), "the matrices and their rows must begin at multiples of 16 B");
  q = p, q.b_addresses.address = p.d.memory.address;
  CHECK_ERROR(matmul()(q), "D overlaps b_addresses");
}

// A prepared launch must use the new matrices, both if its addresses change and if they start elsewhere.
TEST_CASE("a known product reads the addresses of matrices anew") {
  MatmulCase c = sized(70, 64, 64, 3);
  c.group_ends = c.b_addresses = true;
  for (uint64_t seed = 1; seed < 6; ++seed) {
    c.seed = seed;
    check_case(c);
  }
}

TEST_CASE("rows are added to those of D that an index names, to one any number of them") {
  MatmulCase c = sized(150, 72, 136);
  c.add_to_rows = true, c.row_scales = true;
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    c.d = type;
    check_case(c);
  }
  c.group_ends = true, c.size = {150, 96, 136, 5}, c.activation = Activation::silu,
  c.use = kernels::ActivationUse::gate;
  check_case(c);
  c.a_rows = true, c.rows_of_a = 30;
  check_case(c);
  for (const int64_t m : {1, 7, 24}) {  // swapped tiles
    c = sized(m, 200, 64), c.add_to_rows = true, c.d_lie.gap = 8;
    check_case(c);
  }
  c.size.k = 0, c.bias = true;  // rows of bias alone
  check_case(c);
  // Each element must be added only once, although columns of such tiles could be in two panels or belong to
  // two CTAs.
  for (const char* tile : {"128x168_2_1x1_pp", "64x96_2_1x1_w1_k4", "64x96_2_1x1_w1_s3"}) {
    kernels::MatmulOptions options;
    options.choose = [tile](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
      return kernels::parse_tile(tile);
    };
    Matmul other(device(), options);
    c = sized(150, 168, 264), c.add_to_rows = true;
    MatmulTrial trial(device(), c);
    const std::string problem = trial.wrong(trial.run(other));
    CHECK_MESSAGE(problem.empty(), fmt::format("{}: {}", tile, problem));
  }

  c = sized(40, 72, 64), c.add_to_rows = true;
  MatmulTrial trial(device(), c);
  const MatmulArguments p = trial.arguments();
  MatmulArguments q = p;
  q.add_to_rows.bytes -= 4;
  CHECK_ERROR(matmul()(q), "matmul: add_to_rows has");
  q = p, q.add_to_rows = {};
  CHECK_ERROR(matmul()(q), "matmul: rows_of_d = 22 needs d_rows");
  q = p, q.n = 71;
  CHECK_ERROR(matmul()(q), "matmul: D of bf16, with add_to_rows");
  q = p, q.d_rows = p.add_to_rows;
  CHECK_ERROR(matmul()(q), "gemm: d_rows and add_to_rows");
  q = p, q.beta = 1, q.c = q.d, q.m = 20;
  CHECK_ERROR(matmul()(q),
              "gemm: add_to_rows cannot be used with beta C, since rows are added to what D holds");
  q = p, q.n = 64, q.d.stride = 0, q.d.type = DType::e4m3;
  CHECK_ERROR(matmul()(q), "gemm: add_to_rows cannot be used with D of e4m3");
  c.amax = true;
  MatmulTrial measured(device(), c);
  CHECK_ERROR(matmul()(measured.arguments()), "gemm: add_to_rows cannot be used with amax");
}

TEST_CASE("a product with nothing to do is known too, and is checked where necessary") {
  MatmulCase c = sized(0, 40, 72);
  c.bias = true;
  IdleDevice idle;
  Matmul product(idle);
  MatmulTrial trial(idle, c);
  const MatmulArguments p = trial.arguments();
  for (int call = 0; call < 3; ++call) product(p);
  CHECK(idle.launches == 0);
  MatmulArguments q = p;
  q.a.type = DType::s8;
  CHECK_ERROR(product(q), "gemm: A of s8 and B of bf16");
  q = p, q.k = -1;
  CHECK_ERROR(product(q), "matmul: k");
  c.size.m = 8;
  MatmulTrial more(idle, c);
  product(more.arguments());
  CHECK(idle.launches == 1);
}

TEST_CASE(
    "a thread's last launch through one Matmul is not repeated by another, or by a new one at its address") {
  const MatmulCase c = sized(64, 64, 64, 2);
  IdleDevice first, second;
  MatmulTrial trial(first, c);
  auto product = std::make_unique<Matmul>(first);
  Matmul other(second), &one = *product;
  for (int round = 0; round < 3; ++round)
    for (Matmul* by : {&one, &other}) (*by)(trial.arguments());
  CHECK(first.launches == 3);
  CHECK(second.launches == 3);
  one(trial.arguments());
  product.reset();
  const int loads = first.loads;
  Matmul again(first);
  again(trial.arguments());
  CHECK(first.loads == loads + 1);
  CHECK(first.launches == 5);
}

TEST_CASE("products of other sizes share a kernel; other tiles and operations have their own") {
  IdleDevice idle;
  MatmulOptions options;
  options.choose = small_tile;
  Matmul product(idle, options);
  auto loads_of = [&](const MatmulCase& c) {
    const int before = idle.loads;
    MatmulTrial trial(idle, c);
    product(trial.arguments(product));
    return idle.loads - before;
  };
  CHECK(loads_of(sized(64, 64, 64)) == 1);
  CHECK(loads_of(sized(64, 64, 128)) == 0);
  CHECK(loads_of(sized(128, 64, 64)) == 0);
  CHECK(loads_of(sized(64, 128, 64)) == 1);  // swapped tile
  MatmulCase c = sized(64, 64, 64);
  c.alpha = 2;
  CHECK(loads_of(c) == 1);
  c.alpha = 3;
  CHECK(loads_of(c) == 0);
}

TEST_CASE("a tile that spills with an epilogue is used nevertheless") {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = std::make_unique<Compiler>(CompilerOptions{.cache = false});
  } catch (const Error&) {
    return;  // unknown without ptxas
  }
  MatmulCase c = sized(64, 64, 64);
  c.beta = 1;
  c.bias = true;
  c.activation = Activation::silu;
  IdleDevice idle;
  idle.reads_ptx = false;
  MatmulOptions options;
  options.compiler.cache = false;
  options.choose = [&](const kernels::GemmOperation& operation, const kernels::GemmSize&, int) {
    const kernels::GemmTile tile = kernels::parse_tile("256x96x64_4_pp");
    CHECK_ERROR(compiler->compile(kernels::gemm(operation, tile)), "bytes of spill stores");
    return tile;
  };
  Matmul product(idle, options);
  MatmulTrial trial(idle, c);
  product(trial.arguments());
  CHECK(idle.launches == 1);
}

TEST_CASE("a workspace that is too small, or missing, or not aligned, is refused with its size") {
  MatmulCase c = sized(40, 72, 48);
  c.a_lie.offset = 1;
  MatmulTrial trial(device(), c);
  kernels::MatmulArguments p = trial.arguments(matmul());
  const size_t bytes = p.workspace.bytes;
  CHECK(bytes == (40 * 48 * 2 + 255) / 256 * 256);
  CHECK_ERROR(matmul()(trial.arguments()),
              fmt::format("matmul: this call needs a workspace of {} B at a multiple of 16", bytes));
  p.workspace.bytes -= 1;
  CHECK_ERROR(matmul()(p), fmt::format("but {} B at", bytes - 1));
  p.workspace.bytes += 1;
  p.workspace.address += 8;
  CHECK_ERROR(matmul()(p), fmt::format("but {} B at {:#x} were given", bytes, p.workspace.address));
  p.workspace.address = 0;
  CHECK_ERROR(matmul()(p), "B at 0x0");
}

TEST_CASE("a workspace that is also a matrix is refused before anything is queued, known product or not") {
  MatmulOptions options;
  options.choose = [](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
    return kernels::parse_tile("64x64x64_3_w1_s3");
  };
  Matmul divided(device(), options);
  for (bool moved : {false, true}) {
    MatmulCase c = sized(320, 64, 512);
    c.bias = true, c.beta = 1;
    if (moved) c.a_lie.gap = 1;
    MatmulTrial trial(device(), c);
    const MatmulArguments good = trial.arguments(divided);
    REQUIRE(good.workspace.bytes > 0);
    for (int known = 0; known < 2; ++known) {
      // The allocator of the device determines which other operands are adjacent to this one.
      for (const runtime::View& memory :
           {good.a.memory, good.b.memory, good.c.memory, good.d.memory, good.bias}) {
        MatmulArguments p = good;
        p.workspace.address = (memory.address + memory.bytes - 1) / 16 * 16;  // overlaps the operand's end
        CHECK_ERROR(divided(p), "give it memory of its own");
        p.workspace.address =
            memory.address / 16 * 16 - p.workspace.bytes / 16 * 16 + 16;  // overlaps the operand's beginning
        CHECK_ERROR(divided(p), "give it memory of its own");
      }
      const std::string problem = trial.wrong(trial.run(divided));
      CHECK_MESSAGE(problem.empty(), problem);
      divided(good);  // the product is known from now on
    }
  }
  device().synchronize();
}

TEST_CASE("a product goes to the caller's stream, with the copies of its operands") {
  IdleDevice idle;
  Matmul product(idle);
  MatmulCase c = sized(64, 64, 64);
  c.a_lie.offset = c.d_lie.offset = 1;
  MatmulTrial trial(idle, c);
  kernels::MatmulArguments p = trial.arguments(product);
  const int allocations = idle.allocations;
  product(p);
  CHECK(idle.streams == std::vector<void*>{nullptr, nullptr});
  idle.streams.clear();
  p.stream = reinterpret_cast<void*>(0x55);
  product(p);
  CHECK(idle.streams == std::vector<void*>(2, reinterpret_cast<void*>(0x55)));
  CHECK(idle.allocations == allocations);  // the caller provides the workspace
}

TEST_CASE("sixteen threads multiply with one Matmul, several products, each for the first time") {
  MatmulOptions options;
  options.choose = small_tile;
  Matmul shared(device(), options);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (uint64_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      MatmulCase c = sized(40 + 8 * static_cast<int64_t>(i % 3), 64, 64);
      c.seed = i;
      if (i % 2) c.a_lie.offset = c.d_lie.offset = 1;
      MatmulTrial trial(device(), c);
      wrong += !trial.wrong(trial.run(shared)).empty();
    });
  threads.clear();
  CHECK(wrong == 0);
}

namespace {

// Tiles are 64 x 64, and `ctas` CTAs divide k of the tiles in the last wave.
MatmulOptions dividing_k(int ctas) {
  MatmulOptions options;
  options.choose = [ctas](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
    kernels::GemmTile t;
    t.bm = t.bn = 64;
    t.consumers = 1;
    t.split_last = ctas;
    return t;
  };
  return options;
}

}  // namespace

TEST_CASE("a divided k stores its sums in the workspace, whatever its contents, and two launches have two") {
  MatmulOptions options = dividing_k(4);
  options.multiprocessors = 5;
  Matmul product(device(), options);
  const MatmulCase c = sized(128, 192, 512);
  MatmulTrial first(device(), c), second(device(), c);
  CHECK(product.workspace_bytes(first.arguments()) > size_t{5} * 64 * 64 * 4);
  for (int round = 0; round < 3; ++round) CHECK(first.wrong(first.run(product)) == "");
  second.poison();
  // Both products are queued before either runs; on a GPU they may run at the same time.
  auto a = device().create_stream(), b = device().create_stream();
  kernels::MatmulArguments p = first.arguments(product), q = second.arguments(product);
  p.stream = *a, q.stream = *b;
  device().synchronize();
  for (int round = 0; round < 10; ++round) product(p), product(q);
  device().synchronize(*a, std::chrono::minutes(5));  // sanitizers slow the emulator down
  device().synchronize(*b, std::chrono::minutes(5));
  CHECK(first.wrong(first.result()) == "");
  CHECK(second.wrong(second.result()) == "");
}

TEST_CASE("products whose CTAs wait for each other fill the GPU twice, on two streams at once") {
  Matmul product(device(), dividing_k(2));
  const MatmulCase c = sized(1024, 256, 192);  // 64 tiles for 128 CTAs, each alone on an SM
  MatmulTrial first(device(), c), second(device(), c);
  CHECK(first.wrong(first.run(product)) == "");
  second.poison();
  auto a = device().create_stream(), b = device().create_stream();
  kernels::MatmulArguments p = first.arguments(product), q = second.arguments(product);
  p.stream = *a, q.stream = *b;
  device().synchronize();
  const int rounds = device().wants_ptx() ? 2 : 500;  // the emulator runs kernels one after the other
  for (int round = 0; round < rounds; ++round) product(p), product(q);
  device().synchronize(*a);
  device().synchronize(*b);
  CHECK(first.wrong(first.result()) == "");
  CHECK(second.wrong(second.result()) == "");
}

TEST_CASE(
    "columns that do not fill whole boxes are stored twice or in narrow boxes, and a cluster shares any "
    "extent") {
  struct Tile {
    const char* name;
    bool twice;  // columns are stored twice, unless another rule forbids this
  };
  for (const Tile& t :
       {Tile{"64x72_pp", true}, Tile{"64x104_2x1_pp", true}, Tile{"128x88_2x1", true}, Tile{"128x80", false},
        Tile{"64x96_pp", false}, Tile{"64x72_2x1_pp_swap", false}, Tile{"64x120_w1_4x1", true},
        Tile{"64x40_w1_4x1", false}, Tile{"64x72_w1_2x1_s2", false}})
    for (const auto& [beta, activation] :
         {std::pair(false, Activation::none), {false, Activation::silu}, {true, Activation::none}}) {
      CAPTURE(t.name);
      CAPTURE(beta);
      const kernels::GemmTile tile = kernels::parse_tile(t.name);
      kernels::GemmOperation o;
      o.beta = beta;
      CHECK(kernels::checked(o, tile).stores_twice == (t.twice && !beta));
      MatmulCase c = sized(200, 248, 192);
      if (beta) c.beta = 0.5f;
      c.activation = activation;
      MatmulOptions options;
      options.choose = [tile](const kernels::GemmOperation&, const kernels::GemmSize&, int) { return tile; };
      options.multiprocessors = 8;  // each CTA has several tiles
      Matmul product(device(), options);
      MatmulTrial trial(device(), c);
      CHECK(trial.wrong(trial.run(product)) == "");
    }
}

TEST_CASE(
    "clusters divide k together: each CTA adds up with those that have the same tile in other clusters") {
  struct Division {
    int multiprocessors, cluster_m,
        cluster_n;  // the product has 3 x 4 tiles; all CTAs divide the tiles of the last wave
  };
  for (const Division& d : {Division{10, 2, 1}, {10, 1, 2}, {0, 2, 2}, {7, 2, 1}, {0, 4, 1}, {0, 2, 4}}) {
    MatmulOptions options;
    options.multiprocessors = d.multiprocessors;
    options.choose = [d](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
      kernels::GemmTile t;
      t.bm = t.bn = 64;
      t.consumers = 1;
      t.cluster_m = d.cluster_m;
      t.cluster_n = d.cluster_n;
      t.split_last = 4;
      return t;
    };
    Matmul product(device(), options);
    MatmulTrial trial(device(), sized(190, 248, 640));
    for (int round = 0; round < 3; ++round) CHECK(trial.wrong(trial.run(product)) == "");
  }
}

TEST_CASE("a product can be captured, and its graph runs as often as it is launched") {
  Matmul product(device(), [] {
    MatmulOptions options;
    options.choose = small_tile;
    return options;
  }());
  MatmulCase c = sized(70, 40, 72);
  c.a_lie.offset = 1;
  MatmulTrial trial(device(), c);
  kernels::MatmulArguments p = trial.arguments(product);
  auto graph = device().capture([&](runtime::Stream stream) {
    p.stream = stream;
    product(p);
  });
  device().synchronize();
  for (int round = 0; round < 3; ++round) {
    trial.poison();
    graph->launch();
    device().synchronize();
    CHECK(trial.wrong(trial.result()) == "");
  }
}

TEST_CASE("the first call of a product may be in a capture") {
  Matmul product(device(), [] {
    MatmulOptions options;
    options.choose = small_tile;
    return options;
  }());
  MatmulTrial trial(device(), sized(64, 96, 128));
  auto graph = device().capture([&](runtime::Stream stream) {
    kernels::MatmulArguments p = trial.arguments();
    p.stream = stream;
    product(p);  // loads the kernel
  });
  MatmulTrial larger(device(), sized(300, 200, 100));
  CHECK(larger.wrong(larger.run(product)) == "");
  trial.poison();
  graph->launch();
  device().synchronize();
  CHECK(trial.wrong(trial.result()) == "");
}

TEST_CASE("an epilogue of the user's own, after alpha in memory, scales of rows and columns and a bias") {
  constexpr int64_t kM = 70, kN = 88, kK = 72, kBatches = 2;
  MatmulOptions options;
  options.choose = small_tile;
  options.epilogue = {{{"limit", Parameter::Kind::scalar}, {"mask", Parameter::Kind::pointer, DType::bf16}},
                      [](const RegisterTile<f32>& x, const PanelPlace& at, const kernels::GemmParameters& p) {
                        const GlobalTensor mask(p.get<gptr<bf16>>("mask"), {p.get<u32>("N")});
                        return min(x, p.get<f32>("limit")) * of_columns(mask, x.layout(), at);
                      }};
  Matmul product(device(), options);
  MatmulCase c = sized(kM, kN, kK);
  c.size.batches = kBatches;
  c.bias = true, c.d = DType::f32;
  MatmulTrial trial(device(), c);
  std::mt19937_64 random(3);
  auto numbers = [&](int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = normal(random);
    return values;
  };
  const std::vector<float> rows = numbers(kM * kBatches), columns = numbers(kN * kBatches), alpha = {0.5F};
  std::vector<uint16_t> mask;
  for (int64_t j = 0; j < kN; ++j)
    mask.push_back(static_cast<uint16_t>(encode(DType::bf16, j % 3 == 0 ? 2 : 1)));
  auto on_device = [&](const auto& values) { return runtime::Buffer::of(device(), values); };
  runtime::Buffer row_buffer = on_device(rows), column_buffer = on_device(columns),
                  alpha_buffer = on_device(alpha), mask_buffer = on_device(mask);
  kernels::MatmulArguments p = trial.arguments();
  p.row_scales = row_buffer, p.column_scales = column_buffer, p.alpha_in_memory = alpha_buffer;
  CHECK_ERROR(product(p), "matmul: 0 arguments were given for the epilogue, but it has 2 parameters");
  p.epilogue = {runtime::scalar(1.5F), runtime::pointer(mask_buffer, DType::bf16)};
  runtime::Buffer workspace;
  if (const size_t bytes = product.workspace_bytes(p))
    p.workspace = workspace = runtime::Buffer(device(), bytes);
  for (int call = 0; call < 2; ++call) {
    trial.poison();
    product(p);
    device().synchronize();
    CHECK(trial.wrong(trial.result(), [&](double sum, double bias, int64_t batch, int64_t i, int64_t j) {
      const double x = 0.5 * rows[static_cast<size_t>(batch * kM + i)] *
                           columns[static_cast<size_t>(batch * kN + j)] * sum +
                       bias;
      return std::min(x, 1.5) * (j % 3 == 0 ? 2 : 1);
    }) == "");
  }
  p.row_scales.bytes -= 4;
  CHECK_ERROR(product(p), "matmul: row_scales has 556 B at");
}

TEST_CASE("an epilogue of the user's own that adds to D meets each element once, whatever the tile") {
  for (const char* tile :
       {"64x32x64_2_w1_in", "64x72x64_2_w1_in", "64x72x64_2_w1", "128x40x64_2_2x1_pp_in"}) {
    CAPTURE(std::string(tile));
    MatmulOptions options;
    options.multiprocessors = 2;  // they process the tiles one after the other
    options.choose = [&](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
      return kernels::parse_tile(tile);
    };
    options.epilogue = {
        {{"into", Parameter::Kind::pointer, DType::f32}},
        [](const RegisterTile<f32>& x, const PanelPlace& at, const kernels::GemmParameters& p) {
          const GlobalTensor into(p.get<gptr<f32>>("into"), {p.get<u32>("M"), p.get<u32>("N")});
          return x + of_elements(into, x.layout(), at);
        }};
    Matmul product(device(), options);
    MatmulCase c = sized(300, 100, 72);
    c.d = DType::f32;
    MatmulTrial trial(device(), c);
    kernels::MatmulArguments p = trial.arguments();
    std::vector<float> before(static_cast<size_t>(c.size.m * c.size.n), 0.5F);
    runtime::Buffer d = runtime::Buffer::of(device(), before);
    p.d.memory = d;
    p.epilogue = {runtime::pointer(d, DType::f32)};
    CHECK_FALSE(product.tile(p).inside);
    product(p);
    device().synchronize();
    const std::vector<float> added = d.copy_out<float>();
    d = runtime::Buffer::of(device(), std::vector<float>(before.size(), 0));
    p.d.memory = d;
    p.epilogue = {runtime::pointer(d, DType::f32)};
    product(p);
    device().synchronize();
    const std::vector<float> alone = d.copy_out<float>();
    int wrong = 0;
    for (size_t i = 0; i < added.size(); ++i) wrong += added[i] != alone[i] + 0.5F;
    CHECK(wrong == 0);
  }
}

TEST_CASE("the greatest |D| replaces a smaller number, even a negative one") {
  for (float was : {-1.0F, -0.0F, -INFINITY, 0.25F}) {
    MatmulCase c = sized(70, 40, 64);
    c.amax = true;
    c.amax_was = was;
    check_case(c);
  }
}

TEST_CASE("a gate of few columns, of every type, with the tile that the model chooses") {
  Matmul chosen(device());
  for (int64_t n : {2, 4, 8, 10})
    for (auto [a, d, fast] : {std::tuple(DType::bf16, DType::bf16, true),
                              {DType::e4m3, DType::bf16, false},
                              {DType::e4m3, DType::e4m3, true},
                              {DType::e5m2, DType::f32, false}}) {
      MatmulCase c = sized(3, n, 64);
      c.a = c.b = a, c.d = d, c.fast_accumulation = fast;
      c.activation = Activation::silu, c.use = kernels::ActivationUse::gate;
      CAPTURE(text(c));
      MatmulTrial trial(device(), c);
      CHECK(trial.wrong(trial.run(chosen)) == "");
      CHECK(chosen.tile(trial.arguments()).bn <= 64);
    }
}

TEST_CASE("slopes of great numbers are 1 and 0") {
  for (Activation activation : {Activation::relu, Activation::silu, Activation::gelu})
    for (float input : {1e20F, 3e38F, -1e20F, -3e38F}) {
      MatmulCase c = sized(5, 24, 16);
      c.d = DType::f32;
      c.activation = activation, c.use = kernels::ActivationUse::slope;
      MatmulTrial trial(device(), c);
      MatmulArguments p = trial.arguments(matmul());
      const runtime::Buffer inputs = runtime::Buffer::of(device(), std::vector<float>(5 * 24, input));
      p.inputs = {.memory = inputs, .type = DType::f32};
      trial.poison();
      matmul()(p);
      device().synchronize();
      CAPTURE(text(c));
      CAPTURE(input);
      CHECK(trial.wrong(trial.result(), [&](double sum, double, int64_t, int64_t, int64_t) {
        return input > 0 ? sum : 0;
      }) == "");
    }
}

TEST_CASE("a gate, a slope and 8-bit results are requested in valid combinations") {
  Matmul product(device(), [] {
    MatmulOptions options;
    options.choose = small_tile;
    return options;
  }());
  MatmulTrial trial(device(), sized(64, 96, 72));
  kernels::MatmulArguments p = trial.arguments();
  p.activation = kernels::Activation::silu;
  p.use = kernels::ActivationUse::gate;
  p.n = 95;
  CHECK_ERROR(product(p),
              "matmul: a gate of n = 95 columns; n must be even, since the columns come in pairs");
  p.n = 96;
  p.beta = 1, p.c = p.d;
  CHECK_ERROR(product(p), "a gate cannot be used with beta C");
  p.beta = 0;
  p.use = kernels::ActivationUse::slope;
  p.inputs = {.memory = trial.arguments().a.memory, .type = DType::f16};
  CHECK_ERROR(product(p), "matmul: inputs of f16: it must be bf16 if D is bf16");
  p.inputs = p.d;
  CHECK_ERROR(product(p), "matmul: D overlaps inputs");
  p.activation = kernels::Activation::none;
  CHECK_ERROR(product(p), "a slope or a gate needs an activation");
  p.use = kernels::ActivationUse::value;
  p.amax = p.d.memory;
  CHECK_ERROR(product(p), "matmul: D overlaps amax, which is written while D is written");
  p.amax = p.a.memory;
  CHECK_ERROR(product(p), "matmul: amax overlaps A, which is read while amax is written");
}

namespace {

// Provides a device on which tune() finds tile number `take` to be the fastest, and collects tune()'s
// reports.
struct Tuner {
  explicit Tuner(runtime::Device& on = device()) : clock(on) {}

  ClockedDevice clock;
  Warnings warnings;

  MatmulOptions options(const std::string& file, bool tune) {
    MatmulOptions o;
    o.choose = small_tile;
    o.tune = tune;
    o.tuned_file = file;
    return o;
  }
};

// Returns options that record the kernels that a Matmul loads.
MatmulOptions counting(Tuner& tuner, const std::string& file, bool tune, std::vector<std::string>& loaded) {
  MatmulOptions o = tuner.options(file, tune);
  o.load = [&](const kernels::GemmOperation& operation, const kernels::GemmTile& tile) {
    loaded.push_back(text(tile));
    return std::make_unique<runtime::LoadedKernel>(load(tuner.clock, kernels::gemm(operation, tile)));
  };
  return o;
}

std::string lines_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the first call measures if requested, and afterwards the winner comes from the file") {
  const Folder folder;
  const std::string file = folder.path("deep/tuned.txt");
  MatmulCase c = sized(96, 64, 136);
  c.in_place = true;
  c.beta = 0.5F;
  c.a_lie.offset = 1;  // A must be copied to the workspace
  Tuner tuner;
  tuner.clock.take = 2;
  {
    Matmul product(tuner.clock, tuner.options(file, true));
    MatmulTrial trial(device(), c);
    CHECK(trial.wrong(trial.run(product)) == "");  // tuning has not changed D, which is C
    CHECK(tuner.clock.calls == 1);
    CHECK(tuner.clock.contenders >= 6);
    CHECK(tuner.clock.sets > 1);
    MatmulTrial again(device(), c);
    CHECK(again.wrong(again.run(product)) == "");
    CHECK(tuner.clock.calls == 1);
  }
  const std::string kept = lines_of(file);
  CHECK(kept.find("bf16 bf16 bf16 TN fast c 96 64 136 1 ") == 0);
  CHECK(std::count(kept.begin(), kept.end(), '\n') == 1);
  const std::string winner = kept.substr(kept.rfind(' ') + 1, kept.size() - kept.rfind(' ') - 2);

  // A second Matmul represents another process or a later one.
  std::vector<std::string> loaded;
  Matmul later(tuner.clock, counting(tuner, file, true, loaded));
  MatmulTrial trial(device(), c);
  CHECK(trial.wrong(trial.run(later)) == "");
  CHECK(tuner.clock.calls == 1);
  CHECK(loaded.back() == winner);
  CHECK(tuner.warnings.lines().empty());
}

TEST_CASE("nothing is measured and no file is read unless requested, or unless tune() is called") {
  const Folder folder;
  const std::string file = folder.path("tuned.txt");
  Tuner tuner;
  tuner.clock.take = 1;
  std::vector<std::string> loaded;
  Matmul product(tuner.clock, counting(tuner, file, false, loaded));
  MatmulTrial trial(device(), sized(128, 64, 64));
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK(tuner.clock.calls == 0);
  REQUIRE(loaded.size() == 1);
  CHECK(lines_of(file).empty());
  const kernels::MatmulArguments p = trial.arguments(product);
  CHECK(text(product.tile(p)) == loaded[0]);
  product.tune(p);
  product.tune(p);
  CHECK(tuner.clock.calls == 1);
  CHECK(text(product.tile(p)) == loaded[1]);
  const std::string kept = lines_of(file);
  CHECK(kept.find("bf16 bf16 bf16 TN fast plain 128 64 64 1 " + loaded[1] + "\n") == 0);
  trial.poison();
  product(p);  // prepares the product with a different kernel
  device().synchronize();
  CHECK(trial.wrong(trial.result()) == "");
}

namespace {

// tune() chooses the second of the tiles.
MatmulOptions second_tile() {
  MatmulOptions options;
  options.choose = small_tile;
  options.tuned_file = "";
  return options;
}

}  // namespace

TEST_CASE("after tune() a thread that has launched a product launches the kernel that tune() found") {
  IdleDevice idle;
  ClockedDevice clock(idle);
  clock.records = false;
  Matmul product(clock, second_tile());
  MatmulTrial trial(idle, sized(128, 64, 64));
  for (int call = 0; call < 2; ++call) product(trial.arguments());
  const runtime::Program* const before = idle.last_program;
  product.tune(trial.arguments());
  product(trial.arguments());
  CHECK(idle.last_program != before);
}

TEST_CASE("a call that runs while tune() ends does not leave its kernel to later calls") {
  IdleDevice idle;
  ClockedDevice clock(idle);
  clock.records = false;
  Matmul product(clock, second_tile());
  MatmulTrial trial(idle, sized(128, 64, 64));
  const runtime::Program* before = nullptr;
  idle.meanwhile = [&] {
    before = idle.last_program;
    product.tune(trial.arguments());
  };
  product(trial.arguments());
  REQUIRE(before);
  product(trial.arguments());
  CHECK(idle.last_program != before);
}

TEST_CASE("after tune() the bytes of workspace are those of the kernel that tune() found") {
  IdleDevice idle;
  ClockedDevice clock(idle);
  clock.records = false;
  MatmulTrial trial(idle, sized(64, 64, 8192));  // so few tiles that some kernels need a workspace
  const kernels::MatmulArguments p = trial.arguments();
  size_t bytes = 0;
  for (clock.take = 1; bytes == 0 && (clock.take == 1 || clock.take < clock.contenders); ++clock.take) {
    Matmul product(clock, second_tile());
    for (int call = 0; call < 2; ++call) CHECK(product.workspace_bytes(p) == 0);
    product.tune(p);
    bytes = product.workspace_bytes(p);
    MatmulOptions chosen = second_tile();
    chosen.choose = [&](const kernels::GemmOperation&, const kernels::GemmSize&, int) {
      return product.tile(p);
    };
    CHECK(bytes == Matmul(clock, chosen).workspace_bytes(p));
  }
  CHECK(bytes > 0);
}

TEST_CASE("nothing is measured in a capture, and tune() says so") {
  Tuner tuner;
  Matmul product(tuner.clock, tuner.options("", true));
  MatmulTrial trial(device(), sized(64, 96, 128));
  auto graph = device().capture([&](runtime::Stream stream) {
    kernels::MatmulArguments p = trial.arguments();
    p.stream = stream;
    product(p);
    CHECK(tuner.clock.calls == 0);
    CHECK_ERROR(product.tune(p), "tuning in a capture, during which nothing runs: tune before the capture");
  });
  trial.poison();
  graph->launch();
  device().synchronize();
  CHECK(trial.wrong(trial.result()) == "");
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK(tuner.clock.calls == 1);
}

TEST_CASE("a file of tuned tiles that is damaged or cannot be written is one warning, and no failure") {
  const Folder folder;
  Tuner tuner;
  const std::string damaged = folder.path("damaged.txt"),
                    product_line = "bf16 bf16 bf16 TN fast plain 64 64 64 1 ";
  std::ofstream(damaged) << "no line\n\xff\xfe\n"
                         << product_line << "128x64x64_4_k9\n";  // a line with an invalid cluster of 9
  MatmulTrial trial(device(), sized(64, 64, 64));
  Matmul product(tuner.clock, tuner.options(damaged, true));
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK(tuner.clock.calls == 1);
  REQUIRE(tuner.warnings.lines().size() == 1);
  CHECK(tuner.warnings.lines()[0].find("line 1 cannot be parsed and is skipped: 'no line'") !=
        std::string::npos);
  // The added line is the last one, and therefore counts.
  Matmul later(tuner.clock, tuner.options(damaged, true));
  CHECK(trial.wrong(trial.run(later)) == "");
  CHECK(tuner.clock.calls == 1);

  Tuner unwritten;
  Matmul other(unwritten.clock, unwritten.options("/proc/nowhere/tuned.txt", true));
  CHECK(trial.wrong(trial.run(other)) == "");
  MatmulTrial another(device(), sized(72, 64, 64));
  CHECK(another.wrong(another.run(other)) == "");
  CHECK(unwritten.clock.calls == 2);
  REQUIRE(unwritten.warnings.lines().size() == 1);
  CHECK(unwritten.warnings.lines()[0].find("it cannot be written (No such file or directory)") !=
        std::string::npos);
}

TEST_CASE("a file of tuned tiles may lack the last line end, have those of Windows, or be a pipe") {
  const Folder folder;
  Tuner tuner;
  const std::string kept = folder.path("kept.txt"), pipe = folder.path("pipe"),
                    line = "bf16 bf16 bf16 TN fast plain 64 64 64 1 64x32x64_8_w1";
  std::ofstream(kept) << "bf16 bf16 bf16 TN fast plain 72 64 64 1 64x32x64_8_w1\r\n" << line;
  MatmulTrial trial(device(), sized(80, 64, 64));
  Matmul product(tuner.clock, tuner.options(kept, true));
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK(tuner.clock.calls == 1);
  CHECK(lines_of(kept).find(line + "\nbf16 bf16 bf16 TN fast plain 80 64 64 1 ") != std::string::npos);
  Matmul later(tuner.clock, tuner.options(kept, true));
  for (int64_t m : {64, 72, 80}) {
    MatmulTrial known(device(), sized(m, 64, 64));
    CHECK(known.wrong(known.run(later)) == "");
  }
  CHECK(tuner.clock.calls == 1);
  CHECK(tuner.warnings.lines().empty());

  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  Tuner unread;
  Matmul other(unread.clock, unread.options(pipe, true));
  CHECK(trial.wrong(trial.run(other)) == "");
  REQUIRE(unread.warnings.lines().size() == 1);
  CHECK(unread.warnings.lines()[0].find("it is not a regular file") != std::string::npos);
}

TEST_CASE("results of a user's functions are checked, and numbers that are not enumerators") {
  auto refused = [&](const char* text, const std::function<void(MatmulOptions&)>& change) {
    MatmulOptions options;
    options.choose = small_tile;
    options.tuned_file = "";
    change(options);
    CHECK_ERROR(
        [&] {
          Matmul product(device(), options);
          MatmulTrial trial(device(), sized(64, 64, 64));
          MatmulArguments p = trial.arguments();
          p.epilogue.resize(options.epilogue.parameters.size(), runtime::scalar(1.0F));
          product(p);
        }(),
        text);
  };
  refused("MatmulOptions::load returned no kernel for the tile 64x32x64_2_w1",
          [](MatmulOptions& o) { o.load = [](auto&&...) { return nullptr; }; });
  refused("MatmulOptions::choose is empty", [](MatmulOptions& o) { o.choose = nullptr; });
  refused("MatmulOptions::epilogue has 1 parameters, but no function", [](MatmulOptions& o) {
    o.epilogue.parameters = {{"x", Parameter::Kind::scalar}};
  });
  refused("the epilogue's parameter 'x' is a scalar of type f64", [](MatmulOptions& o) {
    o.epilogue = {{{"x", Parameter::Kind::scalar, DType::f64}},
                  [](const RegisterTile<f32>& x, auto&&...) { return x; }};
  });
  refused("no parameter is named 'nope'; there are A, B, D, K, M, N", [](MatmulOptions& o) {
    o.epilogue.function = [](const RegisterTile<f32>& x, const PanelPlace&,
                             const kernels::GemmParameters& p) { return x * p.get<f32>("nope"); };
  });
  MatmulTrial trial(device(), sized(64, 64, 64));
  const MatmulArguments good = trial.arguments(matmul());
  MatmulArguments p = good;
  p.a.type = static_cast<DType>(99);
  CHECK_ERROR(matmul()(p), "the type of A is 99, which is not a value of its enumeration");
  p = good;
  p.activation = static_cast<Activation>(77);
  CHECK_ERROR(matmul()(p), "the activation is 77");
  p = good;
  p.use = static_cast<kernels::ActivationUse>(77);
  CHECK_ERROR(matmul()(p), "the use of the activation is 77");
}

TEST_CASE("tuning without a clock is refused, and is skipped if it is on by default") {
  if (device().properties().ordinal >= 0) return;
  MatmulOptions options;
  options.choose = small_tile;
  options.tune = true;
  options.tuned_file = "";
  Matmul product(device(), options);
  MatmulTrial trial(device(), sized(64, 64, 64));
  CHECK(trial.wrong(trial.run(product)) == "");
  CHECK_ERROR(product.tune(trial.arguments(product)), "tuning needs a GPU, whose time it measures");
}

TEST_CASE("files of tuned tiles differ by GPU, SMs, version and model") {
  runtime::DeviceProperties h100 = device().properties();
  h100.name = "NVIDIA H100 80GB HBM3";
  const std::string file = kernels::default_product_tiles(h100, 132);
  CHECK(file.find("/ptxbuilder/matmul/NVIDIA-H100-80GB-HBM3-132-") != std::string::npos);
  CHECK(kernels::default_product_tiles(h100, 114) != file);
  h100.name = "NVIDIA H200";
  CHECK(kernels::default_product_tiles(h100, 132) != file);
}

namespace {

// A device with a simulated clock. Launches advance the clock, and nothing runs.
class TimedDevice final : public runtime::Device {
 public:
  double now = 0;  // in microseconds

  runtime::DeviceProperties properties() const override {
    return {.name = "clock",
            .compute_capability = 90,
            .multiprocessors = 132,
            .memory_bytes = 0,
            .shared_bytes_per_cta = 0,
            .driver = "",
            .ordinal = 0};
  }
  runtime::Address allocate(size_t) override { return 0; }
  void release(runtime::Address) noexcept override {}
  void copy_in(runtime::Address, const void*, size_t) override {}
  void copy_out(void*, runtime::Address, size_t) override {}
  void fill(runtime::Address, uint8_t, size_t) override {}
  std::unique_ptr<runtime::Program> load(const std::string&, const Signature&) override { return nullptr; }
  void synchronize(std::chrono::milliseconds) override {}
  std::vector<double> time(int, int, const std::function<void()>& queue) override {
    const double before = now;
    queue();
    return {now - before};
  }
  std::unique_ptr<runtime::Graph> capture(const std::function<void(runtime::Stream)>& work) override {
    struct Recorded final : runtime::Graph {
      Recorded(double& the_clock, double microseconds) : clock(the_clock), takes(microseconds) {}
      void launch(runtime::Stream) override { clock += takes; }
      double& clock;
      double takes;
    };
    const double before = now;
    work(runtime::Stream());
    return std::make_unique<Recorded>(now, std::exchange(now, before) - before);
  }

 protected:
  runtime::TensorMap encode_in_scope(const runtime::TensorMapView&) override { return {}; }
  void launch_in_scope(runtime::Program&, const runtime::Launch&, std::span<const void* const>) override {}
};

}  // namespace

TEST_CASE("the fastest has the least median over rounds, over all sets, and is the first of equals") {
  TimedDevice clock;
  std::map<size_t, size_t> launches;
  std::set<size_t> sets;
  auto fastest = [&](const std::vector<double>& microseconds) {
    return kernels::fastest(clock, microseconds.size(), 3, [&](size_t i, size_t set, runtime::Stream) {
      ++launches[i];
      sets.insert(set);
      clock.now += microseconds[i];
    });
  };
  CHECK(fastest({10, 8, 9}) == 1);
  CHECK(sets == std::set<size_t>{0, 1, 2});
  CHECK(launches[0] == launches[1]);
  CHECK(launches[1] > 60);
  CHECK(fastest({10, 8.03, 8, 8.01}) == 1);  // times within half a percent count as equal
  CHECK(fastest({10, 8.1, 8}) == 2);
  CHECK(fastest({5000, 4000}) == 1);
}

}  // namespace ptxbuilder::test::matmul_test
