// Tests Attention, the call for any lengths: masks, heads, sizes down to 0, placement, packed sequences,
// refused calls, and random calls. Each is compared with float64 on poisoned memory, twice, and must produce
// the same bits.
//
//   attention_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX] [--every-row]
//
// --only repeats one random call, whose index a failure prints. --every-row tests all sizes under every mask.
#include "kernels/attention/attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <random>
#include <span>
#include <thread>
#include <tuple>

#include "attention_trial.h"
#include "clocked_device.h"
#include "error_kit.h"
#include "folder_kit.h"
#include "idle_device.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"
#include "warnings.h"

namespace ptxbuilder::test::attention_test {
using attention_trial::Case;
using attention_trial::small_tile;
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionSize;
using kernels::AttentionTile;
using kernels::DeviceHeads;

namespace {

const size_t& count = test::option<size_t>("count", 24);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const bool& every_row = test::option("every-row", false);
const int64_t& only = test::option<int64_t>("only", -1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}
bool large() { return !device().wants_ptx(); }

// Returns the Attention that all tests here share.
struct Trial : attention_trial::Trial {
  explicit Trial(Case c) : attention_trial::Trial(device(), std::move(c)) {}
};

Attention& attention() {
  static Attention attention = [] {
    kernels::AttentionOptions options;
    if (!large()) options.choose = small_tile, options.multiprocessors = 2;
    return Attention(device(), options);
  }();
  return attention;
}

void check_case(const Case& c) {
  CAPTURE(text(c));
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device());
  Trial trial(c);
  if (emulator) emulator->seed(2 * c.data);
  const std::vector<std::byte> first = trial.run(attention());
  const std::string problem = trial.wrong(first);
  CHECK_MESSAGE(problem.empty(), problem);
  if (emulator) emulator->seed(2 * c.data + 1);
  CHECK_MESSAGE(trial.run(attention()) == first, "a second run gives different bits");
}

Case sized(int64_t queries, int64_t keys, int64_t heads = 1, int64_t depth = 16) {
  Case c;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.depth = depth;
  c.p.lse.bytes = 1;  // any size requests lse
  return c;
}

}  // namespace

TEST_CASE("sizes from nothing on") {
  for (const int64_t queries : {0, 1, 3, 65})
    for (const int64_t keys : {0, 1, 16, 33}) check_case(sized(queries, keys, 2));
  Case none = sized(4, 4);
  none.p.batches = 0;
  check_case(none);
  none = sized(4, 4);
  none.p.heads = 0;
  check_case(none);
}

TEST_CASE("every mask, at both alignments, with more queries than keys and fewer") {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{40, 70}, {70, 40}})
    for (const bool top_left : {false, true})
      for (const auto& [left, right] :
           {std::pair<int64_t, int64_t>{-1, 0}, {-1, 9}, {7, -1}, {20, 3}, {0, 0}, {1000, 1000}}) {
        Case c = sized(queries, keys);
        c.p.top_left = top_left, c.p.left = left, c.p.right = right;
        check_case(c);
      }
}

// A consumer has blocks of 64 queries. Blocks have 16 keys or, with two heads and persistent CTAs, 64 keys.
TEST_CASE("all sizes around the ends of blocks, under each mask") {
  // Masks alternate, so that every value of one axis is combined with every value of the others.
  struct Mask {
    bool top_left;
    int64_t left, right;
  };
  constexpr Mask masks[] = {{false, -1, -1}, {false, -1, 0}, {true, -1, 0},
                            {false, 0, 0},   {false, 17, 2}, {true, 40, -1}};
  size_t turn = 0;
  for (const int64_t heads : {1, 2})
    for (const int64_t queries : {1, 2, 63, 64, 65, 128, 129}) {
      turn += 2;
      for (const int64_t keys : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
        ++turn;
        for (size_t i = 0; i < std::size(masks); ++i) {
          if (!every_row && i != turn % std::size(masks)) continue;
          const auto& [top_left, left, right] = masks[i];
          Case c = sized(queries, keys, heads);
          c.p.top_left = top_left, c.p.left = left, c.p.right = right;
          c.data = static_cast<uint64_t>((queries * 131 + keys) * 7 + left + right);
          check_case(c);
        }
      }
    }
}

TEST_CASE("sinks and dropout, alone and together") {
  for (const auto& [queries, has_sinks, dropout] :
       {std::tuple(130, true, 0.F), {70, false, 0.2F}, {150, true, 0.7F}})
    for (const int64_t heads : {3, 4}) {
      Case c = sized(queries, 90, heads);
      c.p.key_heads = heads % 2 == 0 ? 2 : 1, c.p.batches = 2, c.has_sinks = has_sinks, c.dropout = dropout;
      c.p.right = heads == 4 ? 9 : -1, c.p.softcap = heads == 3 ? 3.F : 0.F;
      check_case(c);
    }
  for (const int64_t queries : {1, 5}) {  // heads are rows of blocks, unless weights are dropped
    Case c = sized(queries, 50, 12, 32);
    c.p.key_heads = 2, c.has_sinks = true, c.p.batches = 2;
    check_case(c);
    c.dropout = 0.5F;
    check_case(c);
  }
  Case c = sized(0, 0, 2);
  c.sequences = {{70, 30}, {3, 0}, {20, 90}}, c.p.causal = true, c.has_sinks = true, c.dropout = 0.1F;
  check_case(c);
}

TEST_CASE("one query, whose heads are rows") {
  for (const int64_t left : {-1, 5}) {
    Case c = sized(1, 50, 6, 32);
    c.p.key_heads = 2, c.p.batches = 2, c.p.causal = true, c.p.left = left;
    check_case(c);
    c.p.top_left = true;
    check_case(c);
  }
}

// If 6 heads share keys, two of them are rows of a block. If 8 heads share keys, all are; with 128 heads,
// half of them are; and with 3 heads, none is.
TEST_CASE("few queries, some of whose heads are rows") {
  size_t turn = 0;  // alternates placements, so that each is combined with all numbers of heads and all masks
  for (const auto& [queries, heads, shared] : {std::tuple<int64_t, int64_t, int64_t>{2, 8, 8},
                                               {3, 12, 6},
                                               {5, 6, 3},
                                               {17, 8, 4},
                                               {2, 128, 128},
                                               {40, 4, 2}})
    for (const auto& [top_left, left, right] : {std::tuple<bool, int64_t, int64_t>{false, -1, -1},
                                                {false, -1, 0},
                                                {true, -1, 0},
                                                {false, 9, 3},
                                                {false, 0, 0}}) {
      const auto lie = std::array{Case::Lie::rows_first, Case::Lie::heads_first, Case::Lie::odd}[turn++ % 3];
      Case c = sized(queries, 50, heads, 16);
      c.p.key_heads = heads / shared, c.p.batches = 2, c.lie = lie;
      c.p.top_left = top_left, c.p.left = left, c.p.right = right;
      c.data = static_cast<uint64_t>(queries * 7 + heads + left + right);
      check_case(c);
    }
}

TEST_CASE("any number of columns, and any placement") {
  for (const int64_t depth : {1, 8, 24, 40, 64})
    for (const auto lie : {Case::Lie::rows_first, Case::Lie::heads_first, Case::Lie::apart, Case::Lie::odd}) {
      Case c = sized(20, 30, 2, depth);
      c.lie = lie, c.p.batches = 2, c.p.causal = true;
      c.p.value_depth = std::max<int64_t>(depth - 7, 1);
      check_case(c);
    }
}

TEST_CASE("without lse, with a scale, with softcap") {
  Case c = sized(33, 40);
  c.p.lse.bytes = 0, c.p.scale = 0.5f;
  check_case(c);
  c.p.softcap = 2, c.p.type = DType::bf16;
  check_case(c);
}

TEST_CASE("packed sequences of many lengths, including 0") {
  for (const bool causal : {false, true})
    for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd}) {
      Case c = sized(0, 0, 4, 24);
      c.sequences = {{33, 20}, {0, 5}, {1, 40}, {70, 0}, {5, 5}};
      c.p.key_heads = 2, c.p.causal = causal, c.lie = lie;
      check_case(c);
      c.p.left = 6;
      check_case(c);
    }
}

// Runs causal attention with one element replaced, and reports for each row whether it has no NaN, some NaNs
// or only NaNs. There are 40 queries and keys with 16 columns.
enum class Nan : uint8_t { none, some, all };
std::vector<Nan> rows_with(char tensor, size_t row, uint16_t bits, int64_t heads) {
  Case c = sized(40, 40, heads);
  c.p.causal = true;
  Trial trial(c);
  AttentionArguments p = trial.arguments();
  const auto width = static_cast<size_t>(16 * heads);
  std::vector<uint16_t> ones(40 * width, 0x3c00);
  const runtime::Buffer others = runtime::Buffer::of(device(), ones);
  ones[row * width + 3] = bits;
  const runtime::Buffer changed = runtime::Buffer::of(device(), ones);
  runtime::Buffer o(device(), ones.size() * 2);
  p.q = {.memory = tensor == 'q' ? changed : others};
  p.k = {.memory = tensor == 'k' ? changed : others};
  p.v = {.memory = tensor == 'v' ? changed : others};
  p.o = {.memory = o};
  attention()(p);
  device().synchronize();
  const auto got = o.copy_out<uint16_t>();
  std::vector<Nan> rows;
  for (size_t i = 0; i < 40; ++i) {
    const auto count = std::count_if(got.begin() + static_cast<std::ptrdiff_t>(i * width),
                                     got.begin() + static_cast<std::ptrdiff_t>(i * width + 16),
                                     [](uint16_t b) { return std::isnan(decode(DType::f16, b)); });
    rows.push_back(count == 0 ? Nan::none : count == 16 ? Nan::all : Nan::some);
  }
  return rows;
}

TEST_CASE("which rows a NaN and an infinity reach") {
  constexpr uint16_t kNan = 0x7e00, kInfinity = 0x7c00;
  for (const int64_t heads : {1, 2}) {  // CTAs that end, and persistent CTAs
    for (const uint16_t bits : {kNan, kInfinity}) {
      const std::vector<Nan> of_query = rows_with('q', 5, bits, heads),
                             of_key = rows_with('k', 25, bits, heads);
      for (size_t i = 0; i < 40; ++i) {
        CHECK(of_query[i] == (i == 5 ? Nan::all : Nan::none));
        CHECK(of_key[i] == (i >= 25 ? Nan::all : Nan::none));
      }
    }
    const std::vector<Nan> of_value = rows_with('v', 25, kNan, heads);
    for (size_t i = 25; i < 40; ++i)
      CHECK(of_value[i] == Nan::some);  // other rows of the same block may have NaNs too
  }
}

TEST_CASE("what is refused") {
  Trial trial(sized(20, 30, 4));
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    change(p);
    CHECK_ERROR(attention()(p), words);
    CHECK_ERROR(attention().workspace_bytes(p), words);
  };
  refused([](auto& p) { p.type = DType::f32; }, "O is f32, but must be f16 or bf16");
  refused([](auto& p) { p.depth = 257; }, "Q and K have 257 columns, and V has ");
  refused([](auto& p) { p.value_depth = 17; },
          "V has 17 columns (value_depth), but Q has 16; V must have at least one, and no more than Q");
  refused([](auto& p) { p.queries = -1; }, "queries = -1; it must be 0 to");
  refused([](auto& p) { p.key_heads = 3; }, "4 heads of Q, but 3 of K");
  refused([](auto& p) { p.scale = -1; }, "scale = -1");
  refused([](auto& p) { p.scale = NAN; }, "scale = nan");
  refused([](auto& p) { p.softcap = INFINITY; }, "softcap = inf");
  refused([](auto& p) { p.causal = true, p.right = 2; }, "right = 2; it must be 0 or less if causal");
  refused([](auto& p) { p.keys = 1000; },
          "K of f16: 1000 x 16 elements with a row stride of 64, 4 heads with a stride of 16, 1 batches");
  refused([](auto& p) { p.q.row_stride = 8; },
          "Q of f16: the row stride is 8 elements, but must be at least the 16 of a row");
  refused([](auto& p) { p.v.memory.address += 1; }, "V of f16: the address");
  refused([](auto& p) { p.o = p.q; }, "O overlaps Q, which is read while O is written");
  refused(
      [](auto& p) {
        p.lse = {p.o.memory.address, p.o.memory.bytes};
      },
      "lse overlaps O, which is written while lse is written");
  refused([](auto& p) { p.lse.bytes = 8; }, "lse has 8 B");
  refused(
      [](auto& p) { p.o.head_stride = 16, p.o.row_stride = 16; },
      "O of f16: with a row stride of 16 and a head stride of 16 elements, 20 rows of 16 in 4 heads overlap");
  refused([](auto& p) { p.query_offsets = p.lse; }, "key_offsets has 0 B");
  Trial odd([] {
    Case c = sized(20, 30);
    c.lie = Case::Lie::odd;
    return c;
  }());
  CHECK_ERROR(attention()(odd.arguments()), "needs a workspace of");
  AttentionArguments p = odd.arguments();
  p.workspace = {p.o.memory.address / 16 * 16, size_t{1} << 20};
  CHECK_ERROR(attention()(p), "the workspace");
  Trial known([] {
    Case c = sized(20, 30);
    c.p.depth = 36;  // rows of 72 bytes, which must be copied
    return c;
  }());
  known.run(attention());  // the call and its workspace are known from now on
  CHECK_ERROR(attention()(known.arguments()), "needs a workspace of");
}

namespace {

// Returns the arguments of a case whose memory belongs to the idle device.
AttentionArguments on(IdleDevice& idle, const Case& c) {
  AttentionArguments p = c.p;
  const auto bytes = static_cast<size_t>(p.batches * (p.queries + p.keys + 8) * p.heads * (p.depth + 8) * 2);
  constexpr size_t kGap = 1 << 24;  // larger than a workspace, so that memory overlaps at most one
  const auto memory = [&] { return runtime::View{idle.allocate(bytes + 2 * kGap) + kGap, bytes}; };
  for (DeviceHeads* t : {&p.q, &p.k, &p.v, &p.o}) {
    t->memory = memory();
    if (c.lie == Case::Lie::odd) t->row_stride = p.heads * p.depth + 1;
  }
  if (p.lse.bytes != 0) p.lse = memory();
  return p;
}

AttentionArguments with_workspace(IdleDevice& idle, Attention& call, AttentionArguments p) {
  if (const size_t bytes = call.workspace_bytes(p)) p.workspace = {idle.allocate(bytes), bytes};
  return p;
}

}  // namespace

TEST_CASE("a call that is known loads nothing, and encodes its tensor maps once") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 64);
  c.p.causal = true, c.p.softcap = 2;
  AttentionArguments p = on(idle, c);
  call(p);
  const int loads = idle.loads, encoded = idle.encoded;
  const uint32_t grid = idle.last_grid;
  for (int i = 0; i < 10; ++i) call(p);
  CHECK(idle.loads == loads);
  CHECK(idle.encoded == encoded + 4);  // the stored form is encoded once, since its addresses do not change
  CHECK(idle.launches == 11);
  CHECK(idle.last_grid == grid);
  p.softcap = 3, p.scale = 0.5F;  // these are not part of a form
  p.stream = reinterpret_cast<void*>(0x55);
  call(p);
  CHECK(idle.encoded == encoded + 4);
  CHECK(idle.last_stream == reinterpret_cast<void*>(0x55));
  p.q.memory.address += 256, p.q.memory.bytes -= 256;
  call(p);
  CHECK(idle.encoded == encoded + 8);  // different numbers of bytes make another form
  p.softcap = 0;
  call(p);
  CHECK(idle.loads == loads + 1);
}

TEST_CASE("a known call whose operands are copied encodes nothing, and copies each time") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 60);
  c.lie = Case::Lie::odd, c.p.batches = 2;
  const AttentionArguments p = with_workspace(idle, call, on(idle, c));
  for (int i = 0; i < 2; ++i) call(p);
  const int encoded = idle.encoded;
  for (int i = 0; i < 10; ++i) call(p);
  CHECK(idle.encoded == encoded);
  CHECK(idle.launches == 12 * (1 + 3 * 2 + 1));  // copies Q, K and V of each batch, and O of both batches
  c.p.batches = 20;
  const AttentionArguments many = with_workspace(idle, call, on(idle, c));
  idle.launches = 0;
  for (int i = 0; i < 2; ++i) call(many);
  CHECK(idle.launches == 2 * (1 + 4 * 20));

  // A call whose operands are copied only because of an address must not be reused for other addresses.
  c = sized(200, 300, 4, 64);
  const AttentionArguments aligned = on(idle, c);
  AttentionArguments odd = aligned;
  odd.q.memory.address += 2;
  odd = with_workspace(idle, call, odd);
  idle.launches = 0;
  call(odd);
  CHECK(idle.launches == 2);
  odd.q = aligned.q;
  for (int i = 0; i < 2; ++i) call(odd);
  CHECK(idle.launches == 2 + 2);
}

TEST_CASE("a call with nothing to do is known too, but one through another Attention is not") {
  IdleDevice idle;
  auto call = std::make_unique<Attention>(idle);
  const AttentionArguments none = on(idle, sized(0, 30)), some = on(idle, sized(20, 30));
  for (int i = 0; i < 3; ++i) (*call)(none);
  CHECK(idle.launches == 0);
  for (int i = 0; i < 3; ++i) (*call)(some);
  const int loads = idle.loads;
  CHECK(idle.launches == 3);
  call = std::make_unique<Attention>(idle);
  (*call)(some);
  CHECK(idle.loads == loads + 1);
}

TEST_CASE("a known call uses other tensors and numbers at their current addresses") {
  Case c = sized(33, 50, 4, 24);
  c.p.key_heads = 2, c.p.batches = 2, c.p.softcap = 2;
  for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd})
    for (const bool packed : {false, true}) {
      c.lie = lie;
      c.sequences.clear();
      if (packed) c.sequences = {{33, 20}, {0, 5}, {70, 64}};
      std::vector<std::unique_ptr<Trial>> trials;
      for (int round = 0; round < 2; ++round)
        for (size_t i = 0; i < 3; ++i) {
          if (round == 0) {
            ++c.data, c.p.scale = 0.1F * static_cast<float>(i), c.p.softcap = 1 + static_cast<float>(i);
            trials.push_back(std::make_unique<Trial>(c));
          }
          const std::string problem = trials[i]->wrong(trials[i]->run(attention()));
          CHECK_MESSAGE(problem.empty(), problem);
        }
    }
}

TEST_CASE("a known call is checked where necessary") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 64);
  const AttentionArguments p = on(idle, c);
  for (int i = 0; i < 2; ++i) call(p);
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments q = p;
    change(q);
    const int launches = idle.launches;
    CHECK_ERROR(call(q), words);
    CHECK(idle.launches == launches);
  };
  refused([](auto& q) { q.o.memory.address = q.q.memory.address; }, "O overlaps Q");
  refused([](auto& q) { q.o.memory.address = q.v.memory.address + 16; }, "O overlaps V");
  refused([](auto& q) { q.lse.address = q.k.memory.address; }, "lse overlaps K");
  refused([](auto& q) { q.lse.address = q.o.memory.address; }, "lse overlaps O");
  refused([](auto& q) { q.lse.address += 2; }, "lse has ");
  refused([](auto& q) { q.q.memory.address += 1; }, "Q of f16: the address");
  refused([](auto& q) { q.q.memory.address += 2; }, "needs a workspace of");
  refused([](auto& q) { q.k.memory.address = 0; }, "K: data is NULL");
  refused([](auto& q) { q.scale = NAN; }, "scale = nan");
  refused([](auto& q) { q.scale = -1; }, "scale = -1");
  refused([](auto& q) { q.softcap = INFINITY; }, "softcap = inf");

  c.lie = Case::Lie::odd;
  const AttentionArguments odd = with_workspace(idle, call, on(idle, c));
  for (int i = 0; i < 2; ++i) {
    for (const runtime::View& memory : {odd.q.memory, odd.k.memory, odd.v.memory, odd.o.memory, odd.lse}) {
      AttentionArguments q = odd;
      q.workspace.address = memory.address + 16;  // within the tensor
      CHECK_ERROR(call(q), "give it memory of its own");
      q.workspace.address =
          memory.address - q.workspace.bytes / 16 * 16 + 16;  // overlaps the tensor's beginning
      CHECK_ERROR(call(q), "give it memory of its own");
    }
    AttentionArguments q = odd;
    q.workspace.address = 0;
    CHECK_ERROR(call(q), "at 0x0");
    q = odd, q.workspace.address += 8;
    CHECK_ERROR(call(q), "needs a workspace of");
    call(odd);  // the call is known from now on
  }
}

TEST_CASE("sixteen threads call one Attention, of several sizes, each for the first time and again") {
  kernels::AttentionOptions options;
  if (!large()) options.choose = small_tile, options.multiprocessors = 2;
  Attention shared(device(), options);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (uint64_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      Case c = sized(20 + 8 * static_cast<int64_t>(i % 3), 40, 1, 16);
      c.data = i, c.p.scale = 0.1F * static_cast<float>(i);
      if (i % 2) c.lie = Case::Lie::odd;
      Trial trial(c);
      for (int round = 0; round < 3; ++round) wrong += !trial.wrong(trial.run(shared)).empty();
    });
  threads.clear();
  CHECK(wrong == 0);
}

namespace {

// Provides a device on which tune() finds tile number `take` to be the fastest, and collects the loaded
// kernels and tune()'s reports.
struct Tuner {
  explicit Tuner(runtime::Device& on = device()) : clock(on) {}

  ClockedDevice clock;
  Warnings warnings;
  std::vector<std::string> loaded;

  kernels::AttentionOptions options(const std::string& file) {
    kernels::AttentionOptions o;
    o.choose = small_tile, o.multiprocessors = 2;
    o.tuned_file = file;
    o.load = [this](const AttentionOperation& operation, const AttentionTile& tile) {
      loaded.push_back(text(tile));
      return std::make_unique<runtime::LoadedKernel>(load(clock, compiled(operation, tile)));
    };
    return o;
  }

 private:
  // Returns the compiled kernel, so that tests with the same contenders compile each of them once.
  const Compiled& compiled(const AttentionOperation& operation, const AttentionTile& tile) const {
    struct Known {
      AttentionOperation operation;
      AttentionTile tile;
      bool wants_ptx;
      Compiled kernel;
    };
    static std::deque<Known> all;
    for (const Known& known : all)
      if (known.operation == operation && known.tile == tile && known.wants_ptx == clock.wants_ptx())
        return known.kernel;
    return all
        .emplace_back(operation, tile, clock.wants_ptx(),
                      compiler_for(clock).compile(kernels::attention(operation, tile, {}, 2)))
        .kernel;
  }
};

// A Tuner for an idle device, which records nothing.
struct IdleTuner : Tuner {
  explicit IdleTuner(IdleDevice& idle) : Tuner(idle) { clock.records = false; }
};

}  // namespace

TEST_CASE("tune() chooses the fastest tile, keeps it in a file, and touches no result") {
  const Folder folder;
  const std::string file = folder.path("deep/tuned.txt");
  Tuner tuner;
  size_t lines = 0;
  for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd})
    for (const bool packed : {false, true}) {
      Case c = sized(packed ? 0 : 30, packed ? 0 : 50, 4, 24);
      c.p.key_heads = 2, c.p.causal = true, c.p.softcap = 2, c.lie = lie;
      c.data += lines;  // sizes differ too, because a file distinguishes them
      if (packed) c.sequences = {{20, 33 + static_cast<int64_t>(lines)}, {5, 5}};
      if (!packed) c.p.keys += static_cast<int64_t>(lines);
      Attention call(tuner.clock, tuner.options(file));
      Trial trial(c);
      CHECK(trial.wrong(trial.run(call)) == "");
      const AttentionTile before = call.tile(trial.arguments());
      CHECK(text(before) == tuner.loaded.back());
      trial.poison();
      for (int i = 0; i < 2; ++i) call.tune(trial.arguments());
      CHECK(trial.is_poisoned());
      CHECK(tuner.clock.calls == ++lines);
      CHECK(tuner.clock.contenders >= 6);
      CHECK(tuner.clock.sets > 1);
      const AttentionTile found = call.tile(trial.arguments());
      CHECK(!(found == before));
      CHECK(trial.wrong(trial.run(call)) == "");  // the call uses a new workspace

      Tuner later;
      Attention another(later.clock, later.options(file));
      another.tune(trial.arguments());
      CHECK(later.clock.calls == 0);
      CHECK(another.tile(trial.arguments()) == found);
      CHECK(later.warnings.lines().empty());
      CHECK(trial.wrong(trial.run(another)) == "");
    }
  CHECK(tuner.warnings.lines().empty());
  std::ifstream kept(file);
  std::string first;
  std::getline(kept, first);
  CHECK(first.starts_with("f16 32x32 causal+lse+softcap 60 50 2 1 1 21 0 2 "));
}

TEST_CASE("a file of tuned tiles that is damaged or does not suit is one warning, and no failure") {
  const Folder folder;
  const std::string known = "f16 16x16 lse 40 50 1 1 1 0 0 1 ";
  for (const auto& [line, words] :
       {std::pair<std::string, const char*>{"no line", "line 1 cannot be parsed"},
        {known + "64", "line 1 cannot be parsed"},
        {"f16 lse 64x16_9", "line 1 cannot be parsed"},
        {known + "64x64_2_whole", "the tile 64x64_2_whole does not suit f16 16x16"},
        {known + "64x16_9", ""}}) {
    CAPTURE(line);
    const std::string file = folder.path("tuned.txt");
    std::ofstream(file) << line << '\n';
    IdleDevice idle;
    IdleTuner tuner(idle);
    Attention call(tuner.clock, tuner.options(file));
    call.tune(on(idle, sized(40, 50)));
    const size_t wrong = words[0] != 0 ? 1 : 0;
    CHECK(tuner.clock.calls == wrong);
    REQUIRE(tuner.warnings.lines().size() == wrong);
    if (wrong != 0) CHECK(tuner.warnings.lines()[0].find(words) != std::string::npos);
  }
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options("/proc/nowhere/tuned.txt"));
  call.tune(on(idle, sized(40, 50)));
  REQUIRE(tuner.warnings.lines().size() == 1);
  CHECK(tuner.warnings.lines()[0].find("it cannot be written") != std::string::npos);
}

TEST_CASE("after tune() a known call launches the kernel that tune() found") {
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options(""));
  const AttentionArguments p = on(idle, sized(200, 300, 4, 64));
  for (int i = 0; i < 2; ++i) call(p);
  const runtime::Program* before = idle.last_program;
  call.tune(p);
  call(p);
  CHECK(idle.last_program != before);
  before = idle.last_program;
  call(p);  // encodes tensor maps once more, since the call is stored now
  const int encoded = idle.encoded;
  call.tune(p);  // nothing is left to tune
  call(p);
  CHECK(idle.last_program == before);
  CHECK(idle.encoded == encoded);
  // If a call runs while another thread tunes, later calls must not inherit its kernel.
  const AttentionArguments q = on(idle, sized(200, 301, 4, 64));
  idle.meanwhile = [&] {
    before = idle.last_program;
    call.tune(q);
  };
  call(q);
  call(q);
  CHECK(idle.last_program != before);
}

TEST_CASE("tune() measures the order of packed sequences with the tiles that use it") {
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options(""));
  AttentionArguments p = on(idle, sized(200, 300, 4, 64));
  p.query_rows = p.queries, p.key_rows = p.keys;
  p.query_offsets = {idle.allocate(8), 8}, p.key_offsets = {idle.allocate(8), 8};
  call.tune(p);
  const auto ordered = std::ranges::count_if(
      tuner.loaded, [](const std::string& tile) { return tile.find("_persistent") != std::string::npos; });
  CHECK(ordered > 0);
  const auto copies = 3 * (tuner.clock.sets - 1);  // the first set belongs to the caller
  CHECK(static_cast<size_t>(idle.launches) ==
        copies + (1 + tuner.clock.sets) * (tuner.clock.contenders + static_cast<size_t>(ordered)));
}

TEST_CASE("a call that cannot be tuned, has no tile or loads no kernel says so") {
  IdleDevice idle;
  Attention call(idle);
  const AttentionArguments p = on(idle, sized(40, 50));
  CHECK_ERROR(call.tune(p), "attention: tuning needs a GPU, whose time it measures");
  CHECK_ERROR(call.tile(on(idle, sized(0, 50))), "the tile of a call with nothing to do");
  kernels::AttentionOptions options;
  options.load = [](const AttentionOperation&, const AttentionTile&) { return nullptr; };
  CHECK_ERROR(Attention(idle, options)(p), "AttentionOptions::load returned no kernel for the tile");
  options = {};
  options.choose = nullptr;
  CHECK_ERROR(Attention(idle, options), "AttentionOptions::choose is empty");
}

// Reduces heads and batches until the reference on the host computes its products in less than a second.
void bound_reference(AttentionArguments& p) {
  constexpr int64_t kMostProducts = 300'000'000;
  const int64_t of_head = p.queries * p.keys * (p.depth + p.value_depth);
  const auto is_more = [&] { return p.batches * p.heads * of_head > kMostProducts; };
  if (is_more()) p.batches = 1;
  while (is_more() && p.heads > p.key_heads) p.heads -= p.key_heads;
  if (is_more()) p.heads = p.key_heads = 1;
}

TEST_CASE("random calls") {
  for (size_t i = only < 0 ? 0 : static_cast<size_t>(only);
       i < (only < 0 ? count : static_cast<size_t>(only) + 1); ++i) {
    std::mt19937_64 random(seed * 1000003 + i);
    const auto between = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const auto spread = [&](int64_t most) {  // draws each order of magnitude equally often
      return static_cast<int64_t>(
          std::exp(std::uniform_real_distribution<double>(0, std::log(static_cast<double>(most)))(random)));
    };
    const auto chance = [&](int one_in) { return between(1, one_in) == 1; };
    Case c = sized(spread(large() ? 700 : 150), spread(large() ? 900 : 150), between(1, 3));
    AttentionArguments& p = c.p;
    c.data = random();
    c.has_sinks = chance(3);
    if (chance(3)) c.dropout = static_cast<float>(between(1, 99)) / 100;
    p.type = chance(2) ? DType::f16 : DType::bf16;
    p.depth = std::array<int64_t, 7>{
        16, 32, 64, 80, 128, 192, 256}[static_cast<size_t>(between(0, large() ? 6 : 3))];
    if (chance(6)) p.depth = between(1, p.depth);
    p.value_depth = chance(5) ? between(1, p.depth) : p.depth;
    p.batches = between(1, 2);
    p.key_heads = p.heads;
    p.heads *= std::array<int64_t, 5>{1, 2, 3, 4, 8}[static_cast<size_t>(between(0, 4))];
    p.causal = chance(2);
    p.top_left = chance(4);
    if (chance(3)) p.left = spread(300);
    if (!p.causal && chance(4)) p.right = spread(100);
    if (chance(5)) p.softcap = static_cast<float>(between(1, 30));
    if (chance(4)) p.scale = chance(2) ? 0.2f : 2.f;  // a scale of 2 makes maxima grow by more than 2^8
    if (chance(3)) p.lse.bytes = 0;
    c.lie = static_cast<Case::Lie>(between(0, 3));
    c.e4m3 = chance(4);
    if (c.e4m3 && chance(2))
      for (int64_t i = chance(2) ? p.key_heads : 1; i > 0; --i)
        for (std::vector<float>* scales : {&c.q_scale, &c.k_scale, &c.v_scale})
          scales->push_back(static_cast<float>(between(5, 20)) / 10);
    if (c.e4m3 && (p.value_depth == 0 ? p.depth : p.value_depth) <= 128 && chance(3))
      p.promote = between(1, 300);
    if (chance(4)) {
      p.top_left = false;
      for (int64_t s = between(1, 5); s > 0; --s)
        c.sequences.push_back({chance(5) ? 0 : spread(150), chance(5) ? 0 : spread(200)});
      p.queries = p.keys = 0;
      if (c.e4m3) p.value_depth = (p.value_depth + 31) / 32 * 32, p.depth = std::max(p.depth, p.value_depth);
    }
    bound_reference(p);
    INFO("--seed=", seed, " --only=", i);
    // This line is printed before the call, so that a hanging call can be identified.
    if (large()) fmt::print("--seed={} --only={}: {}\n", seed, i, text(c)), std::fflush(stdout);
    check_case(c);
  }
}

}  // namespace ptxbuilder::test::attention_test
