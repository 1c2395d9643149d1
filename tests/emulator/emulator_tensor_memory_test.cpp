// Tests products in tensor memory: a Blackwell tile against float64, other types, and faults.
#include "subsets_kit.h"

namespace ptxbuilder::runtime {
namespace emulator_tensor_memory_test {
namespace {

// Returns the error of the repository's Blackwell tile on one CTA: 128 x 256 x k.
double tile_error(const std::string& text, uint64_t seed) {
  constexpr uint32_t m = 128, n = 256, k = 320;
  EmulatorOptions options;
  options.seed = seed;
  Bench bench(text, 128, options);
  const auto a = random_bf16(size_t{m} * k, 1), b = random_bf16(size_t{n} * k, 2);
  const Address da = bench.upload(a), db = bench.upload(b),
                dd = bench.upload(std::vector<uint16_t>(m * n, 0x7fc0));
  const TensorMap ma = bench.map_2d(da, DType::bf16, m, k, 128, 64, Swizzle::b128),
                  mb = bench.map_2d(db, DType::bf16, n, k, 256, 64, Swizzle::b128),
                  md = bench.map_2d(dd, DType::bf16, m, n, 128, 64, Swizzle::b128);
  bench.run({1, 1, 1}, 197632, ma, mb, md, k);
  return gemm_error(a, b, bench.download<uint16_t>(dd, m * n), m, n, k);
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a Blackwell tile runs under any schedule, and its product is right") {
  const std::string text = test_file("golden/blackwell_tile.ptx");
  for (uint64_t seed = 0; seed < 6; ++seed) CHECK(tile_error(text, seed) < 1);
}

TEST_CASE("a Blackwell tile without what it needs is reported") {
  const std::string text = test_file("golden/blackwell_tile.ptx");
  auto fault = [&](const std::string& from, const std::string& to, std::string* what) {
    return fault_of([&] { tile_error(changed(text, from, to), 1); }, what);
  };
  std::string what;
  // The sums are read without a wait for the last commit.
  CHECK(fault("@%p16 bra \t$L__BB0_21;", "", &what) == Fault::race);
  CHECK_MESSAGE(what.find("tensor memory") != std::string::npos, what);
  // A stage is freed before the product has read it.
  CHECK(fault("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r483];",
              "mbarrier.arrive.shared::cta.b64 _, [%r483];", &what) == Fault::race);
  CHECK_MESSAGE(what.find("product") != std::string::npos, what);
  CHECK(fault("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r478, 256;", "", &what) == Fault::early_exit);
  CHECK(fault("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r478, 256;",
              "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r478, 128;", &what) == Fault::operand);
  CHECK(fault("shl.b32 \t%r451, %r450, 21;", "mov.b32 %r451, 0;", &what) == Fault::out_of_bounds);
  CHECK_MESSAGE(what.find(" reaches lanes ") != std::string::npos, what);
  CHECK(fault("add.s32 \t%r417, %r126, 192;", "add.s32 %r417, %r126, 224;", &what) == Fault::out_of_bounds);
  CHECK_MESSAGE(what.find("which the CTA has not allocated") != std::string::npos, what);
  // The first product has nothing to add to.
  CHECK(fault("mov.pred \t%p22, 0;", "mov.pred %p22, -1;", &what) == Fault::uninitialised);
}

// Returns a kernel of one or two warpgroups around `body`, with a product of one instruction's 32 bytes of k,
// without swizzle. Before `body`, it has loaded A and B into shared memory, initialized four mbarriers with
// one arrival each, and allocated 32 columns. A has 128 rows, and B has 16 columns, each with all of k. In
// each group of 8 rows, 128 bytes hold 16 bytes of k, and these pieces are contiguous. Registers: %r1 is
// tid.x, %r2 the warp, %r9 the columns, %r12 the columns of the warp's lanes, %r13 the mbarriers, %rd3 d,
// %rd6 and %rd7 the descriptors of A and B, %p2 "not thread 0", %p3 "not warp 0".
std::string around(const std::string& body) {
  return R"(.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d) {
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %rd<12>;
.shared .align 128 .b8 sa[4096]; .shared .align 128 .b8 sb[512]; .shared .align 8 .b64 bar[4]; .shared .b32 slot;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [d]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;
mov.u32 %r3, sa; mov.u32 %r4, sb; mov.u32 %r5, 0; mov.u32 %r13, bar; setp.ge.u32 %p1, %r1, 128; @%p1 bra M;
L: mad.lo.s32 %r6, %r5, 512, 0; mad.lo.s32 %r6, %r1, 4, %r6; cvt.u64.u32 %rd4, %r6; add.s64 %rd5, %rd1, %rd4;
ld.global.b32 %r7, [%rd5]; add.s32 %r8, %r3, %r6; st.shared.b32 [%r8], %r7;
add.s32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 8; @%p1 bra L;
shl.b32 %r6, %r1, 2; cvt.u64.u32 %rd4, %r6; add.s64 %rd5, %rd2, %rd4; ld.global.b32 %r7, [%rd5];
add.s32 %r8, %r4, %r6; st.shared.b32 [%r8], %r7;
M: setp.ne.u32 %p2, %r1, 0; @%p2 bra N;
mbarrier.init.shared::cta.b64 [%r13], 1; mbarrier.init.shared::cta.b64 [%r13+8], 1;
mbarrier.init.shared::cta.b64 [%r13+16], 1; mbarrier.init.shared::cta.b64 [%r13+24], 1; N:
setp.ne.u32 %p3, %r2, 0; @%p3 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
A: fence.proxy.async.shared::cta; bar.sync 0; ld.shared.b32 %r9, [slot]; and.b32 %r12, %r2, 3; shl.b32 %r12, %r12, 21; add.s32 %r12, %r12, %r9;
shr.u32 %r10, %r3, 4; cvt.u64.u32 %rd6, %r10; or.b64 %rd6, %rd6, 0x0000401000080000;
shr.u32 %r11, %r4, 4; cvt.u64.u32 %rd7, %r11; or.b64 %rd7, %rd7, 0x0000401000080000;
)" + body +
         R"(bar.sync 0; @%p3 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32; E: ret; })";
}

// Returns a kernel with one product. A may be copied to tensor memory first.
std::string product(const std::string& kind, uint32_t what, bool is_copied) {
  return around(std::string("@%p2 bra W;\nadd.s32 %r14, %r9, 16;\n") +
                (is_copied ? "tcgen05.cp.cta_group::1.128x256b [%r14], %rd6;\n" : "") +
                "tcgen05.mma.cta_group::1.kind::" + kind + " [%r9], " + (is_copied ? "[%r14]" : "%rd6") +
                ", %rd7, " + std::to_string(what) + R"(, 0;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;
tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {%r16,%r17,%r18,%r19,%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27,%r28,%r29,%r30,%r31}, [%r12];
tcgen05.wait::ld.sync.aligned;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r16}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r16}, [%r12]; tcgen05.wait::ld.sync.aligned;
mul.wide.u32 %rd8, %r1, 64; add.s64 %rd8, %rd8, %rd3;
st.global.v4.b32 [%rd8], {%r16,%r17,%r18,%r19}; st.global.v4.b32 [%rd8+16], {%r20,%r21,%r22,%r23};
st.global.v4.b32 [%rd8+32], {%r24,%r25,%r26,%r27}; st.global.v4.b32 [%rd8+48], {%r28,%r29,%r30,%r31};
)");
}

// Elements are small integers, which every type can represent.
template <class Element>
void check_product(const std::string& kind, uint32_t types, bool integer, Element element, size_t rows = 128,
                   bool is_copied = false) {
  const uint32_t what = static_cast<uint32_t>(rows / 16) << 24 | 2u << 17 | types;
  constexpr size_t m = 128, n = 16;
  const size_t bytes = sizeof(decltype(element(0))), k = 32 / bytes;
  std::mt19937 engine(3);
  std::vector<int> a(m * k), b(n * k);
  for (int& v : a) v = static_cast<int>(engine() % 5);
  for (int& v : b) v = static_cast<int>(engine() % 5);
  const auto packed = [&](const std::vector<int>& from, size_t rows) {
    std::vector<decltype(element(0))> to(from.size());
    const size_t chunk = 16 / bytes;
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < k; ++i)
        to[row / 8 * (256 / bytes) + i / chunk * (128 / bytes) + row % 8 * chunk + i % chunk] =
            element(from[row * k + i]);
    return to;
  };
  Bench bench(product(kind, what, is_copied), 128);
  const Address da = bench.upload(packed(a, m)), db = bench.upload(packed(b, n)),
                dd = bench.upload(std::vector<uint32_t>(m * n));
  bench.run({1, 1, 1}, 0, da, db, dd);
  const std::vector<uint32_t> d = bench.download<uint32_t>(dd, m * n);
  size_t wrong = 0;
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < n; ++column) {
      int sum = 0;
      for (size_t i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
      const size_t lane = rows == 64 ? row / 16 * 32 + row % 16 : row;
      const uint32_t got = d[lane * n + column];
      wrong += integer ? static_cast<int>(got) != sum : std::bit_cast<float>(got) != static_cast<float>(sum);
    }
  CHECK_MESSAGE(wrong == 0, kind);
}

TEST_CASE("products of each kind are right") {
  check_product("f16", 1 << 4, false, [](int v) { return emulator::to_f16(static_cast<float>(v)); });
  check_product("f16", 1 << 4 | 1 << 7 | 1 << 10, false,
                [](int v) { return emulator::to_bf16(static_cast<float>(v)); });
  check_product("tf32", 1 << 4 | 2 << 7 | 2 << 10, false, [](int v) { return static_cast<float>(v); });
  check_product("i8", 2 << 4 | 1 << 7 | 1 << 10, true, [](int v) { return static_cast<int8_t>(v); });
  constexpr uint8_t e4m3[] = {0x00, 0x38, 0x40, 0x44, 0x48}, e5m2[] = {0x00, 0x3c, 0x40, 0x42, 0x44};
  check_product("f8f6f4", 1 << 4, false, [&](int v) { return e4m3[v]; });
  check_product("f8f6f4", 1 << 4 | 1 << 7 | 1 << 10, false, [&](int v) { return e5m2[v]; });
  const auto half = [](int v) { return emulator::to_f16(static_cast<float>(v)); };
  const auto whole = [](int v) { return static_cast<int8_t>(v); };
  check_product("f16", 1 << 4, false, half, 64);
  check_product("i8", 2 << 4 | 1 << 7 | 1 << 10, true, whole, 64);
  check_product("f16", 1 << 4, false, half, 128, true);
  check_product("i8", 2 << 4 | 1 << 7 | 1 << 10, true, whole, 128, true);
}

TEST_CASE("copies to tensor memory place each row of their shape") {
  struct Shape {
    const char* name;
    uint32_t columns;
    std::function<std::optional<uint32_t>(uint32_t lane)> row;
  };
  const Shape shapes[] = {
      {"128x256b", 8, [](uint32_t lane) { return lane; }},
      {"128x128b", 4, [](uint32_t lane) { return lane; }},
      {"4x256b", 8, [](uint32_t lane) { return lane % 32 ? std::nullopt : std::optional(lane / 32); }},
      {"64x128b.warpx2::02_13", 4, [](uint32_t lane) { return lane % 64; }},
      {"64x128b.warpx2::01_23", 4, [](uint32_t lane) { return lane / 64 * 32 + lane % 32; }},
      {"32x128b.warpx4", 4, [](uint32_t lane) { return lane % 32; }}};
  for (const Shape& shape : shapes) {
    const std::string text = around(fmt::format(
        "@%p2 bra W;\ntcgen05.cp.cta_group::1.{} [%r9], %rd6;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13];\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13], 0; @!%p1 bra W;\n"
        "tcgen05.fence::after_thread_sync;\ntcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r16,%r17,%r18,%r19}}, "
        "[%r12];\n"
        "{}tcgen05.wait::ld.sync.aligned;\nmul.wide.u32 %rd8, %r1, 32; add.s64 %rd8, %rd8, %rd3;\n"
        "st.global.v4.b32 [%rd8], {{%r16,%r17,%r18,%r19}};\n{}",
        shape.name,
        shape.columns == 8 ? "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r20,%r21,%r22,%r23}, [%r12+4];\n" : "",
        shape.columns == 8 ? "st.global.v4.b32 [%rd8+16], {%r20,%r21,%r22,%r23};\n" : ""));
    std::vector<uint32_t> words(1024);
    for (uint32_t i = 0; i < words.size(); ++i) words[i] = 1000 + i;
    Bench bench(text, 128);
    const Address a = bench.upload(words), b = bench.upload(std::vector<uint32_t>(128)),
                  d = bench.upload(std::vector<uint32_t>(1024));
    bench.run({1, 1, 1}, 0, a, b, d);
    const auto got = bench.download<uint32_t>(d, 1024);
    size_t wrong = 0;
    for (uint32_t lane = 0; lane < 128; ++lane)
      for (uint32_t c = 0; c < shape.columns; ++c)
        if (const auto row = shape.row(lane))
          wrong += got[lane * 8 + c] != words[*row / 8 * 64 + c / 4 * 32 + *row % 8 * 4 + c % 4];
    CHECK_MESSAGE(wrong == 0, shape.name);
  }
}

// All warps store to tensor memory, one thread adds a product there, and all warps load the sums. Then a
// thread of another warp adds a further product.
std::string handed_over() {
  const std::string sums =
      "{%r16,%r17,%r18,%r19,%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27,%r28,%r29,%r30,%r31}";
  const std::string add = "tcgen05.mma.cta_group::1.kind::tf32 [%r9], %rd6, %rd7, " +
                          std::to_string(8u << 24 | 2u << 17 | 1u << 4 | 2u << 7 | 2u << 10) + ", 1;\n";
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n";
  std::string zeros;
  for (int k = 16; k < 32; ++k) zeros += "mov.b32 %r" + std::to_string(k) + ", 0;\n";
  return around(zeros + "tcgen05.st.sync.aligned.32x32b.x16.b32 [%r12], " + sums + ";\n" + R"(
tcgen05.wait::st.sync.aligned; // stored
tcgen05.fence::before_thread_sync; // stored
bar.sync 0;
@%p2 bra W;
tcgen05.fence::after_thread_sync; // stored
)" + add + add + commit +
                R"(W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;
tcgen05.fence::after_thread_sync; // added
tcgen05.ld.sync.aligned.32x32b.x16.b32 )" +
                sums + R"(, [%r12];
tcgen05.wait::ld.sync.aligned; // loaded
mul.wide.u32 %rd8, %r1, 4; add.s64 %rd8, %rd8, %rd3; st.global.b32 [%rd8], %r31;
tcgen05.fence::before_thread_sync; // loaded
bar.sync 0;
setp.ne.u32 %p1, %r1, 32; @%p1 bra V;
tcgen05.fence::after_thread_sync; // loaded
)" + add + commit +
                R"(V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1; @!%p1 bra V;
tcgen05.fence::after_thread_sync; // added again
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r16}, [%r12];
tcgen05.wait::ld.sync.aligned; // loaded again
st.global.b32 [%rd8], %r16;
)");
}

std::optional<Fault> handing_over(const std::string& text, std::string* what) {
  return fault_of(
      [&] {
        Bench bench(text, 128);
        const Address a = bench.upload(std::vector<float>(1024, 1)),
                      b = bench.upload(std::vector<float>(128, 2)), d = bench.upload(std::vector<float>(128));
        bench.run({1, 1, 1}, 0, a, b, d);
        CHECK(bench.download<float>(d, 128) == std::vector<float>(128, 3 * 8 * 2));
      },
      what);
}

TEST_CASE("a missing wait or fence between a transfer, a product and another thread is named") {
  const std::string text = handed_over();
  std::string what;
  CHECK_MESSAGE(!handing_over(text, &what), what);
  struct Plant {
    std::string left_out;
    Fault fault;
    std::string reported;
  };
  for (const Plant& p : std::vector<Plant>{
           {"tcgen05.wait::st.sync.aligned; // stored", Fault::race, "without tcgen05.wait::st"},
           {"tcgen05.fence::before_thread_sync; // stored", Fault::race, "without tcgen05.fence::before"},
           {"tcgen05.fence::after_thread_sync; // stored", Fault::race, "without tcgen05.fence::after"},
           {"tcgen05.fence::after_thread_sync; // added\n", Fault::race, "without tcgen05.fence::after"},
           {"tcgen05.wait::ld.sync.aligned; // loaded\n", Fault::matrix_registers, "no tcgen05.wait::ld"},
           {"tcgen05.fence::before_thread_sync; // loaded", Fault::race, "without tcgen05.fence::before"},
           {"tcgen05.fence::after_thread_sync; // loaded", Fault::race, "without tcgen05.fence::after"},
           {"tcgen05.fence::after_thread_sync; // added again", Fault::race, "without tcgen05.fence::after"},
           {"tcgen05.wait::ld.sync.aligned; // loaded again", Fault::matrix_registers, "no tcgen05.wait::ld"},
       }) {
    what.clear();
    CHECK_MESSAGE(handing_over(changed(text, p.left_out, ""), &what) == p.fault, p.left_out);
    CHECK_MESSAGE(what.find(p.reported) != std::string::npos, p.left_out << ": " << what);
  }
  // Even an unused load must be complete before a product overwrites its source.
  const std::string unused =
      changed(text, "mul.wide.u32 %rd8, %r1, 4; add.s64 %rd8, %rd8, %rd3; st.global.b32 [%rd8], %r31;",
              "mul.wide.u32 %rd8, %r1, 4; add.s64 %rd8, %rd8, %rd3;");
  CHECK_MESSAGE(!handing_over(unused, &what), what);
  CHECK(handing_over(changed(unused, "tcgen05.wait::ld.sync.aligned; // loaded\n", ""), &what) ==
        Fault::race);
  CHECK_MESSAGE(what.find("without tcgen05.wait::ld") != std::string::npos, what);
}

// ---- Everything that orders loads, stores, products and commits, and every subset of it ----

const std::string before = "tcgen05.fence::before_thread_sync;\n",
                  after = "tcgen05.fence::after_thread_sync;\n";
const std::string stored = "tcgen05.wait::st.sync.aligned;\n", loaded = "tcgen05.wait::ld.sync.aligned;\n";
const std::string meet = before + "bar.sync 0;\n" + after;
const std::string sixteen = "{%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1};\n";
const std::string fill = "tcgen05.st.sync.aligned.32x32b.x16.b32 [%r12], " + sixteen +
                         "tcgen05.st.sync.aligned.32x32b.x16.b32 [%r12+16], " + sixteen;
const std::string filled = fill + stored + meet;  // both tiles of 16 columns

std::string store(int column = 0) {
  return fmt::format("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12+{}], {{%r1}};\n", column);
}
std::string load(int column = 0, int to = 16) {
  return fmt::format("tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r{}}}, [%r12+{}];\n", to, column);
}
// Returns code that only one thread runs, by default thread 0. `number` makes its label unique.
std::string only(int number, const std::string& what, int thread = 0) {
  return fmt::format("setp.ne.u32 %p1, %r1, {1};\n@%p1 bra O{0};\n{2}O{0}:\n", number, thread, what);
}
std::string product_to(int column = 0, bool adds = false) {
  return fmt::format(
      "add.s32 %r14, %r9, {};\ntcgen05.mma.cta_group::1.kind::tf32 [%r14], %rd6, %rd7, {}, {};\n", column,
      8u << 24 | 2u << 17 | 1u << 4 | 2u << 7 | 2u << 10, adds ? 1 : 0);
}
std::string commit(int mbarrier) {
  return fmt::format("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13+{}];\n",
                     8 * mbarrier);
}
std::string await(int number, int mbarrier, int parity = 0) {
  return fmt::format(
             "W{0}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13+{1}], {2};\n@!%p1 bra W{0};\n",
             number, 8 * mbarrier, parity) +
         after;
}
std::string arrive(int mbarrier) {
  return before + fmt::format("mbarrier.arrive.shared::cta.b64 _, [%r13+{}];\n", 8 * mbarrier);
}
std::string first_group(int number, const std::string& what) {
  return fmt::format("setp.ge.u32 %p1, %r1, 128;\n@%p1 bra G{0};\n{1}G{0}:\n", number, what);
}
std::string second_group(int number, const std::string& what) {
  return fmt::format("setp.lt.u32 %p1, %r1, 128;\n@%p1 bra G{0};\n{1}G{0}:\n", number, what);
}

// Copies A to the 16 columns after the accumulator, where a product reads it.
const std::string copy = "add.s32 %r15, %r9, 16;\ntcgen05.cp.cta_group::1.128x256b [%r15], %rd6;\n";
const std::string copy_over = "tcgen05.cp.cta_group::1.128x256b [%r9], %rd6;\n";
const std::string product_of_copy =
    "add.s32 %r15, %r9, 16;\ntcgen05.mma.cta_group::1.kind::tf32 [%r9], [%r15], %rd7, " +
    std::to_string(8u << 24 | 2u << 17 | 1u << 4 | 2u << 7 | 2u << 10) + ", 0;\n";

const std::vector<SubsetProgram>& with_copies() {
  static const std::vector<SubsetProgram> table = {
      {"a store to A, then a product",
       fill + "<0>" + meet + only(1, product_of_copy + commit(0)) + await(1, 0) + load() + loaded,
       {stored},
       with<0>},
      {"a product, then a store to its A",
       filled + only(1, product_of_copy + commit(0)) + "<0>" + store(16) + stored + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a load, then a copy over it",
       filled + load(16) + "<0>" + meet + only(1, copy + commit(0)) + await(1, 0) + loaded,
       {loaded},
       with<0>},
      {"a copy, then a product of it",
       filled + only(1, copy + product_of_copy + commit(0)) + await(1, 0) + load() + loaded,
       {},
       always},
      {"one copy, then two products of it",
       filled + only(1, copy + product_of_copy + product_of_copy + commit(0)) + await(1, 0) + load() + loaded,
       {},
       always},
      {"a copy by one thread, a product by another",
       filled + only(1, copy + "<0>mbarrier.arrive.shared::cta.b64 _, [%r13+8];\n") +
           only(2,
                "X: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13+8], 0;\n@!%p1 bra X;\n<1>" +
                    product_of_copy + commit(0),
                32) +
           await(1, 0) + only(3, commit(2)) + await(2, 2) + load() + loaded,
       {before, after},
       with_both},
      {"a copy, then a load",
       filled + only(1, copy + commit(0)) + "<0>" + load(16) + loaded + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a copy, then a store",
       filled + only(1, copy + commit(0)) + "<0>" + store(16) + stored + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a copy, then another one",
       filled + only(1, copy + commit(0) + "<0>" + copy + commit(1)) + await(2, 1),
       {await(1, 0)},
       with<0>},
      {"a product, then a copy over it",
       filled + only(1, product_to() + commit(0) + "<0>" + copy_over + commit(1)) + await(2, 1),
       {await(1, 0)},
       with<0>},
      {"a copy, then its source is written",
       filled + only(1, copy + commit(0) + "<0>st.shared.b32 [%r3], 0;\n") + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a thread writes the source of a copy",
       filled + only(1, "st.shared.b32 [%r3], 0;\n<0>" + copy + commit(0)) + await(1, 0),
       {"fence.proxy.async.shared::cta;\n"},
       with<0>},
  };
  return table;
}

const std::vector<SubsetProgram>& one_warpgroup() {
  static const std::vector<SubsetProgram> table = {
      {"a store, then a load: only the wait for stores orders them",
       filled + store() + "<0><1><2>" + load() + loaded,
       {stored, loaded, only(1, commit(0)) + await(1, 0)},
       with<0>},
      {"a load, then a store: only the wait for loads orders them",
       filled + load() + "<0><1><2>" + store() + stored + loaded,
       {loaded, stored, only(1, commit(0)) + await(1, 0)},
       with<0>},
      {"two stores", filled + store() + "<0>" + store() + stored, {stored}, with<0>},
      {"two loads", filled + load() + load(0, 17) + loaded, {}, always},
      {"a store, then a product that adds to it",
       fill + "<0>" + meet + only(1, product_to(0, true) + commit(0)) + await(1, 0) + load() + loaded,
       {stored},
       with<0>},
      {"a load, then a product that replaces it",
       filled + load() + "<0>" + meet + only(1, product_to() + commit(0)) + await(1, 0) + loaded,
       {loaded},
       with<0>},
      {"a product, then a load",
       filled + only(1, product_to() + "<0>") + "<1>" + load() + loaded + only(2, "<2>") + await(2, 1),
       {commit(0), await(1, 0), commit(1)},
       [](uint32_t subset) { return subset == 7; }},
      {"two products to one place, then a load",
       filled + only(1, product_to() + product_to(0, true) + commit(0)) + await(1, 0) + load() + loaded,
       {},
       always},
      {"a commit is of the products before it, and the first is loaded",
       filled + only(1, product_to() + commit(0) + product_to(16) + commit(1)) + await(1, 0) + load() +
           loaded + await(2, 1),
       {},
       always},
      {"a commit is of the products ahead of it, and not of the second, which is loaded",
       filled + only(1, product_to() + commit(0) + product_to(16) + commit(1)) + await(1, 0) + load(16) +
           loaded + await(2, 1),
       {},
       never},
      {"a product, then a store",
       filled + only(1, product_to() + commit(0)) + "<0>" + store() + stored + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a thread writes an operand of a product",
       filled + only(1, "st.shared.b32 [%r3], 0;\n<0>" + product_to() + commit(0)) + await(1, 0),
       {"fence.proxy.async.shared::cta;\n"},
       with<0>},
      {"a product, then its operand is written",
       filled + only(1, product_to() + commit(0) + "<0>st.shared.b32 [%r4], 0;\n") + await(2, 0),
       {await(1, 0)},
       with<0>},
      {"a product, then a copy to its operand",
       filled +
           only(1, product_to() + commit(0) +
                       "<0>mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13+8], 16;\n"
                       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd2], 16, "
                       "[%r13+8];\n") +
           await(2, 1) + await(3, 0),
       {await(1, 0)},
       with<0>},
      {"two threads make a product each, one after the other",
       filled + only(1, product_to() + "<0>mbarrier.arrive.shared::cta.b64 _, [%r13+8];\n") +
           only(2,
                "X: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r13+8], 0;\n@!%p1 bra X;\n<1>" +
                    product_to(0, true) + commit(0),
                32) +
           await(1, 0) + only(3, commit(2)) + await(2, 2) + load() + loaded,
       {before, after},
       with_both},
      {"two threads make products after one, and neither is after the other",
       filled + only(1, product_to() + arrive(1) + product_to(0, true) + commit(0)) +
           only(2, await(1, 1) + product_to(0, true) + commit(2), 32) + await(2, 0) + await(3, 2),
       {},
       never},
      {"a commit is not of another thread's products",
       filled + only(1, product_to() + arrive(1) + commit(2)) + only(2, await(1, 1) + commit(0), 32) +
           await(2, 0) + "<0>" + load() + loaded + await(3, 2),
       {await(4, 2)},
       with<0>},
      {"a commit to each of three mbarriers, and one is waited for",
       filled + only(1, product_to() + commit(0) + commit(1) + commit(2)) + "<0><1><2>" + load() + loaded +
           await(4, 0) + await(5, 1) + await(6, 2),
       {await(1, 0), await(2, 1), await(3, 2)},
       [](uint32_t subset) { return subset != 0; }},
      {"a copy's arrival says nothing of a product",
       filled +
           only(1,
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 16;\n"
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd2], 16, "
                "[%r13];\n" +
                    product_to() + commit(0)) +
           await(1, 0) + load() + loaded + await(2, 0, 1),
       {},
       never},
      {"columns are given back while a product is under way in others",
       filled + only(1, product_to() + commit(0)) +
           "@%p3 bra D;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;\n"
           "ld.shared.b32 %r15, [slot];\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r15, 32;\nD:\n" +
           await(1, 0) + load() + loaded,
       {},
       always},
  };
  return table;
}

// One warpgroup passes a tile to another.
std::vector<SubsetProgram> two_warpgroups() {
  std::vector<SubsetProgram> programs;
  for (const bool stores : {true, false})
    programs.push_back({stores ? "one stores, the other loads" : "one loads, the other stores",
                        first_group(1, fill + stored + (stores ? store() : load()) + "<0>" + before) +
                            "bar.sync 0;\n" +
                            second_group(2, after + "<1>" + (stores ? load() + loaded : store() + stored)) +
                            (stores ? stored : loaded),
                        {stores ? stored : loaded, stores ? stored : loaded},
                        with<0>});
  programs.push_back({"one makes a product, the other loads it",
                      first_group(1, fill + stored + before) + "bar.sync 0;\n" + after +
                          only(2, product_to() + commit(0)) + second_group(3, "<0>" + load() + loaded) +
                          await(2, 0),
                      {await(1, 0)},
                      with<0>});
  return programs;
}

TEST_CASE(
    "tensor memory is ordered exactly by the waits, fences and commits that stand between its accesses") {
  for (const bool has_two : {false, true}) {
    Subsets subsets([has_two](const SubsetProgram&, const std::string& body, const EmulatorOptions& options) {
      Bench bench(around(body), has_two ? 256 : 128, options);
      const Address a = bench.upload(std::vector<float>(1024, 1)),
                    b = bench.upload(std::vector<float>(128, 2)), d = bench.upload(std::vector<float>(128));
      bench.run_for(std::chrono::seconds(5), {1, 1, 1}, 0, a, b, d);
    });
    for (const SubsetProgram& program : has_two ? two_warpgroups() : one_warpgroup()) subsets.check(program);
    if (!has_two)
      for (const SubsetProgram& program : with_copies()) subsets.check(program);
    subsets.tell();
  }
}

}  // namespace
}  // namespace emulator_tensor_memory_test
}  // namespace ptxbuilder::runtime
