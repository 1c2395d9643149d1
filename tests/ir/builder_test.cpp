// Tests the builder's PTX: values, control flow, memory, instructions, lines, versions, and many threads at
// once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <regex>
#include <set>
#include <thread>

#include "kernels/family/family.h"
#include "library_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::builder_test {
namespace {

// Returns the PTX, without line marks, of a kernel that stores body(a, b). Its parameters `to`, `a` and `b`
// have one type.
template <class T, class R = T>
std::string binary(const std::function<R(T, T)>& body, const char* target = "sm_90a") {
  Kernel k("k", {.target = target, .line_info = false});
  auto [to, from] = k.params<gptr<R>, gptr<T>>("to", "from");
  T a = from[0], b = from[1];
  to[0] = body(a, b);
  return squeezed(ptx_of(k));
}

std::string built(const std::function<void(Kernel&)>& body, BuilderOptions options = {.line_info = false}) {
  Kernel k("k", options);
  body(k);
  return squeezed(ptx_of(k));
}

void in_order(const std::string& text, const std::vector<const char*>& parts) {
  size_t at = 0;
  for (const char* part : parts) {
    size_t found = text.find(part, at);
    CHECK_MESSAGE(found != std::string::npos, std::string(part)
                                                  << " is missing, or out of order, in " << text);
    if (found == std::string::npos) return;
    at = found + std::string_view(part).size();
  }
}

}  // namespace

TEST_CASE("operators follow the type's sign and kind") {
  using U = std::function<u32(u32, u32)>;
  using S = std::function<s32(s32, s32)>;
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return a / b; })), "div.u32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32 b) { return a / b; })), "div.s32"));
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return a % b; })), "rem.u32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32 b) { return a % b; })), "rem.s32"));
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return a >> b; })), "shr.u32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32 b) { return a >> b; })), "shr.s32"));
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return min(a, b); })), "min.u32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32 b) { return max(a, b); })), "max.s32"));
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return select(a < b, a, 7); })), "setp.lt.u32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32 b) { return select(a < b, a, 7); })), "setp.lt.s32"));
  CHECK(contains(binary<u32>(U([](u32 a, u32 b) { return (a & b) | (a ^ 5); })), "and.b32"));
  CHECK(
      contains(binary<u64>(std::function<u64(u64, u64)>([](u64 a, u64 b) { return a * b; })), "mul.lo.s64"));

  CHECK(contains(binary<u32>(U([](u32 a, u32) { return -a; })), "neg.s32"));
  CHECK(contains(binary<s32>(S([](s32 a, s32) { return ~a; })), "not.b32"));

  using F = std::function<f32(f32, f32)>;
  CHECK(contains(binary<f32>(F([](f32 a, f32) { return -a; })), "neg.f32"));
  // Rounding is explicit, so that ptxas does not fuse the two operations. Only the author can request fma().
  std::string text = binary<f32>(F([](f32 a, f32 b) { return a * b + 1.5; }));
  in_order(text, {"mul.rn.f32", "add.rn.f32", "0f3FC00000"});
  CHECK_FALSE(contains(text, "fma"));
  CHECK(contains(binary<f32>(F([](f32 a, f32 b) { return fma(a, b, a); })), "fma.rn.f32"));
  CHECK(contains(binary<f32>(F([](f32 a, f32 b) { return a / b; })), "div.rn.f32"));
  CHECK(contains(binary<f32>(F([](f32 a, f32 b) { return max(a, b); })), "max.f32"));
  // A comparison with NaN is true only for !=, as in C.
  CHECK(contains(binary<f32>(F([](f32 a, f32 b) { return select(a < b, a, 1); })), "setp.lt.f32"));
  CHECK(contains(binary<f32>(F([](f32 a, f32 b) { return select(a != b, a, 1); })), "setp.neu.f32"));
}

TEST_CASE("conversions extend by the source's sign, and name their rounding") {
  auto convert = []<class From, class To>(From, To) {
    return binary<typename From::type, typename To::type>([](auto a, auto) { return typename To::type(a); });
  };
  std::type_identity<u16> t_u16;
  std::type_identity<s16> t_s16;
  std::type_identity<s32> t_s32;
  std::type_identity<u32> t_u32;
  std::type_identity<u64> t_u64;
  std::type_identity<s64> t_s64;
  std::type_identity<f32> t_f32;
  std::type_identity<bf16> t_bf16;
  std::type_identity<f64> t_f64;
  CHECK(contains(convert(t_s32, t_s64), "ld.global.s32"));
  CHECK(contains(convert(t_u32, t_u64), "ld.global.b32 %rd"));
  CHECK(contains(convert(t_s16, t_u32), "ld.global.s16"));
  CHECK(contains(convert(t_u16, t_u32), "ld.global.b16 %r"));
  CHECK(contains(convert(t_s32, t_f32), "cvt.rn.f32.s32"));
  CHECK(contains(convert(t_u32, t_f32), "cvt.rn.f32.u32"));
  CHECK(contains(convert(t_f32, t_s32), "cvt.rzi.s32.f32"));
  CHECK(contains(convert(t_f32, t_u32), "cvt.rzi.u32.f32"));
  CHECK(contains(convert(t_f32, t_bf16), "cvt.rn.bf16.f32"));
  CHECK(contains(convert(t_f64, t_f32), "cvt.rn.f32.f64"));
  CHECK(contains(convert(t_f32, t_f64), "cvt.f64.f32"));
}

TEST_CASE("branches and loops") {
  std::string text = built([](Kernel& k) {
    auto [to, n] = k.params<gptr<u32>, u32>("to", "n");
    Var<u32> sum(0);
    for_(0, n, 2, [&](u32 i) {
      if_(
          i < 10, [&] { sum += i; }, [&] { sum ^= i; });
    });
    while_([&] { return sum.value() > 3; }, [&] { sum -= 3; });
    to[0] = sum;
  });
  CHECK_FALSE(contains(text, ".local"));  // a Var becomes a register
  in_order(text, {"bra", "add.s32 %r3, %r3, %r4", "setp.ge.u32", "xor.b32 %r3, %r3, %r4", "setp.lt.u32",
                  "st.global.b32", "ret;"});

  // The sign of the index type decides the comparison.
  auto loop = []<class T>(T) {
    return built([](Kernel& k) {
      using I = typename T::type;
      auto [to, n] = k.params<gptr<I>, I>("to", "n");
      for_(0, n, [&](I i) { to[0] = i; });
    });
  };
  CHECK(contains(loop(std::type_identity<u32>()), "setp.ge.u32"));
  CHECK(contains(loop(std::type_identity<s32>()), "setp.ge.s32"));
}

TEST_CASE("loads and stores: addresses, widths, spaces") {
  std::string text = built([](Kernel& k) {
    auto [to, from] = k.params<gptr<f32>, gptr<f32>>("to", "from");
    u32 i = tid_x();
    sptr<f32> staging(k.builder().shared_base());
    auto four = load<4>(from + i * 4);
    store(to + i * 4, four);
    staging[i + 3] = from[i];
    to[i] = from[i] * from[i + 1] + (to[i] - from[i]) / from[i + 2];  // an element is used as its value
    to[i] = from[i] + to[i];
    to[i + 7] += from[i];
  });
  in_order(text, {"ld.global.b32 %r", "+28];", "st.global.b32 [%rd",
                  "+28]"});               // the same address is read and written
  CHECK(contains(text, "mul.wide.u32"));  // indices are unsigned
  CHECK(contains(text, "ld.global.v4.b32"));
  CHECK(contains(text, "st.global.v4.b32"));
  CHECK(contains(text, "st.shared.b32 [%r"));  // 32-bit addresses
  CHECK(contains(text, "+12]"));               // constants fold into the address
  CHECK(contains(text, ".extern .shared .align 1024 .b8 k_smem[];"));
}

TEST_CASE("products in expressions are calls of mma") {
  auto text = [](bool expression, bool minus, bool in_registers) {
    return built([&](Kernel& k) {
      SharedTile a = k.shared<f16>({64, 64}, Swizzle128B), b = k.shared<f16>({32, 64}, Swizzle128B);
      Accumulator acc(64, 32);
      sync_threads();
      std::optional<RegisterTile<f16>> registers;
      if (in_registers) registers = load<f16>(a[0], wgmma_layout(64, 64));
      wgmma_group([&] {
        if (!expression && in_registers) mma(acc, *registers, b[0], {.negate_a = minus});
        if (!expression && !in_registers) mma(acc, a[0], b[0], {.negate_a = minus});
        if (expression && in_registers && minus) acc -= *registers * b[0];
        if (expression && in_registers && !minus) acc += *registers * b[0];
        if (expression && !in_registers && minus) acc -= a[0] * b[0];
        if (expression && !in_registers && !minus) acc += a[0] * b[0];
      });
      wgmma_wait(0);
    });
  };
  for (bool minus : {false, true})
    for (bool in_registers : {false, true}) {
      CHECK(text(true, minus, in_registers) == text(false, minus, in_registers));
      CHECK(count(text(true, minus, in_registers), "wgmma.mma_async.") == 4);
    }
  CHECK(text(true, true, false) != text(true, false, false));
  // An error names the line of the expression.
  std::string problem = error_of([] {
    Kernel k("k");
    SharedTile a = k.shared<f16>({64, 64}, Swizzle128B);
    Accumulator acc(64, 32);
    wgmma_group([&] { acc += a[0] * a[0]; });
  });
  CHECK(contains(problem, "mma: the shapes do not match in D 64x32 += A 64x64 B 64x64"));
  CHECK(contains(problem, fmt::format("builder_test.cpp:{}", __LINE__ - 3)));
}

TEST_CASE("ptx(): holes that read, write, and read and write") {
  std::string text = built([](Kernel& k) {
    auto [to] = k.params<gptr<u32>>("to");
    Var<u32> old(0), count(5);
    smem at = k.builder().shared_base();
    u32 n = tid_x();
    ptx("atom.shared.add.u32 {old:=u32}, [{at:smem}], {n:u32};", {{"old", old}, {"at", at}, {"n", n}});
    ptx("add.u32 {count:+u32}, {count2:u32}, {i:imm<0..9>};", {{"count", count}, {"count2", old}, {"i", 9}});
    ptx("{{ .reg .b32 t; mov.b32 t, %clock; xor.b32 {d:=u32}, t, {a:u32}; }}", {{"d", old}, {"a", n}});
    to[0] = count;
    to[1] = old;
  });
  std::smatch m;
  REQUIRE(std::regex_search(text, m, std::regex(R"(atom\.shared\.add\.u32 (%r\d+), \[(%r\d+)\], (%r\d+);)")));
  std::string old = m[1], n = m[3];
  // An operand that is read and written is one register, and its value is moved there first.
  REQUIRE(std::regex_search(text, m, std::regex("add\\.u32 (%r\\d+), " + old + ", 9;")));
  std::string count = m[1];
  CHECK(contains(text, "mov.b32 " + count + ", 5;"));
  CHECK(contains(text, "st.global.b32 [%rd1], " + count + ";"));
  CHECK(contains(text, "{ .reg .b32 t; mov.b32 t, %clock; xor.b32 "));
}

TEST_CASE("ptx(): of several statements the first may write before the last reads") {
  std::string text = built([](Kernel& k) {
    auto [to, n] = k.params<gptr<u32>, u32>("to", "n");
    Var<u32> x(1);
    smem at = k.builder().shared_base();
    for_(0, n, [&](u32) {
      ptx("{{ mov.b32 {d:=u32}, %clock; st.shared.b32 [{at:smem}], {a:u32}; }}",
          {{"d", x}, {"at", at}, {"a", x}});
    });
    to[0] = x;
  });
  std::smatch m;
  REQUIRE(std::regex_search(
      text, m, std::regex(R"(mov\.b32 (%r\d+), %clock; st\.shared\.b32 \[(%r\d+)\], (%r\d+);)")));
  CHECK(m[1] != m[3]);
  CHECK(m[1] != m[2]);
}

TEST_CASE("ptx(): every type a hole can have") {
  std::string text = built([](Kernel& k) {
    auto [h, b, d, w] = k.params<gptr<f16>, gptr<bf16>, gptr<f64>, gptr<u64>>("h", "b", "d", "w");
    Var<f16> x(0);
    Var<bf16> y(0);
    Var<f64> z(0);
    Var<u64> a(0);
    Var<u16> s(0);
    Var<pred> p(pred(false));
    f16 half = h[1];
    bf16 brain = b[1];
    ptx("neg.f16 {d:=f16}, {a:f16};", {{"d", x}, {"a", half}});
    ptx("neg.bf16 {d:=bf16}, {a:bf16};", {{"d", y}, {"a", brain}});
    ptx("mov.b16 {d:=b16}, {a:b16};", {{"d", s}, {"a", half}});
    ptx("neg.f64 {d:=f64}, {a:f64};", {{"d", z}, {"a", d[1].value()}});
    ptx("cvta.to.global.u64 {d:=u64}, {a:gmem};", {{"d", a}, {"a", gmem(w.handle())}});
    ptx("setp.eq.u64 {p:=pred}, {a:u64}, 0;", {{"p", p}, {"a", a}});
    h[0] = x;
    b[0] = y;
    d[0] = z;
    w[0] = select(p.value(), a.value(), u64(s.value()));
  });
  CHECK(std::regex_search(text, std::regex(R"(neg\.f16 %rs\d+, %rs\d+;)")));
  CHECK(std::regex_search(text, std::regex(R"(neg\.bf16 %rs\d+, %rs\d+;)")));
  CHECK(std::regex_search(text, std::regex(R"(mov\.b16 %rs\d+, %rs\d+;)")));
  CHECK(std::regex_search(text, std::regex(R"(neg\.f64 %f?r?d\d+, %f?r?d\d+;)")));
  CHECK(std::regex_search(text, std::regex(R"(setp\.eq\.u64 %p\d+, %rd\d+, 0;)")));
}

TEST_CASE("typed instructions: results, guards, constants as text") {
  std::string text = built([](Kernel& k) {
    smem bar = k.builder().shared_base();
    mbarrier_init(bar, 128);
    bar_sync(1, 128);
    mbarrier_arrive.when(tid_x() == 0)(bar);
    ptxbuilder::nanosleep.when(pred(true))(tid_x());
    while_([&] { return !mbarrier_try_wait_parity(bar, 0); }, [] {});
    shfl_sync_idx(tid_x(), 0);
  });
  in_order(text, {"mbarrier.init.shared::cta.b64 [", "], 128;", "bar.sync 1, 128;"});
  CHECK(std::regex_search(text, std::regex(R"(@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];)")));
  CHECK(std::regex_search(text, std::regex(R"(@%p\d+ nanosleep\.u32 %r\d+;)")));
  CHECK(std::regex_search(
      text, std::regex(R"(mbarrier\.try_wait\.parity\.shared::cta\.b64 %p\d+, \[%r\d+\], 0;)")));
  CHECK(contains(text, "shfl.sync.idx.b32"));  // remains although nothing reads it
}

TEST_CASE("effects: pure instructions are merged and removed, and the others keep their number and order") {
  std::string text = built([](Kernel& k) {
    auto [to] = k.params<gptr<u32>>("to");
    f32 x(tid_x());
    auto pack = [&](f32 high) {
      std::vector<Argument> arguments = {high, x};
      return u32(
          k.builder().emit(isa::cvt_pack(DType::f16), arguments, std::nullopt, Where::here())[0].handle());
    };
    to[0] = pack(x) + pack(x);
    pack(x + 1);
    u32 early = ptxbuilder::clock(), late = ptxbuilder::clock();
    clock64();
    to[1] = late - early;
  });
  CHECK(count(text, "cvt.rn.f16x2.f32") == 1);
  CHECK(count(text, ", %clock;") == 2);
  CHECK(count(text, ", %clock64;") == 1);
  in_order(text, {"%clock;", "%clock;", "%clock64;"});
}

TEST_CASE("named registers and launch bounds") {
  std::string text = built([](Kernel& k) {
    Accumulator one(64, 128), two(128, 8);
    k.threads(96);
    k.cluster(2, 1, 1);
  });
  CHECK(contains(text, ".reg .f32 acc0_<64>;"));
  CHECK(contains(text, ".reg .f32 acc1_<8>;"));
  CHECK(contains(text, ".maxntid 96"));
  CHECK(contains(text, ".minnctapersm 1"));
  CHECK(contains(text, ".reqnctapercluster 2"));

  Kernel roles("roles");
  roles.warpgroups(1, 40, [](u32) {});
  roles.warpgroups(2, 232, [](u32) {});
  text = squeezed(ptx_of(roles));
  CHECK(roles.signature().threads == 384);
  CHECK(contains(text, ".maxntid 384"));
  in_order(text, {"setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 232;"});
}

TEST_CASE("print: a format, a buffer, and leave for its stack") {
  Kernel k("k", {.line_info = false});
  print("%u%% %d %f %llu %c\n", {tid_x(), pred(tid_x() == 1), f32(1), u64(2), u32('x')});
  std::string text = squeezed(ptx_of(k));
  in_order(text, {".extern .func (.param .b32 func_retval0) vprintf", "st.local.b32", "st.local.b64",
                  "call.uni (retval0), vprintf"});
  CHECK(std::regex_search(text, std::regex(R"(selp\.b32 %r\d+, 1, 0,)")));  // a predicate prints as 0 or 1
  CHECK(k.builder().waivers() == std::vector<std::string>{"stack"});
  std::string plain = built([](Kernel&) { print("hello\n"); });
  CHECK_FALSE(contains(plain, "__local_depot"));
}

TEST_CASE("the PTX version is the least that the target and the instructions need") {
  auto head = [](const char* target, const std::function<void()>& body) {
    return built([&](Kernel&) { body(); }, {.target = target}).substr(0, 200);
  };
  auto nothing = [] {};
  for (const isa::Target& t : isa::targets()) {
    std::string text = built([](Kernel&) {}, {.target = std::string(t.name)});
    CHECK(contains(text, fmt::format(".version {} .target {} ", isa::version_text(t.ptx_version), t.name)));
  }
  CHECK(contains(head("sm_75", nothing), ".version 6.3"));
  CHECK(contains(head("sm_80", nothing), ".version 7.0"));
  CHECK(contains(head("sm_80", [] { mbarrier_inval(Builder::current().shared_base()); }), ".version 7.8"));
  CHECK(contains(head("sm_90", [] { cluster_ctarank(); }), ".version 7.8"));
  CHECK(contains(head("sm_90", [] { fence_proxy_async<Space::all>(); }), ".version 8.0"));
}

TEST_CASE(".loc lines are the author's, never those of the library") {
  unsigned sync = 0, load = 0, wait = 0, sum = 0, in_elect = 0;
  Kernel k("k");
  auto [A, n] = k.params<TensorMap, u32>("A", "n");
  SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
  Pipeline pipe(k, 2, {tile}, 1);
  // clang-format off
  sync = __LINE__; sync_threads();
  Producer producer = pipe.producer();
  Consumer consumer = pipe.consumer();
  elect([&] {
    in_elect = __LINE__; ptxbuilder::nanosleep(n);
    Stage s = producer.acquire();
    load = __LINE__; tma_load(tile[s], A, 0, 0);
  });
  wait = __LINE__; Stage s = consumer.wait();
  sum = __LINE__; ptxbuilder::nanosleep(n + ctaid_x());
  consumer.release(s);
  // clang-format on
  std::string text = ptx_of(k);
  std::regex file(R"(\.file\s+(\d+) "([^"]*)\")");
  std::set<std::string> files;
  for (std::sregex_iterator i(text.begin(), text.end(), file), end; i != end; ++i) files.insert((*i)[2]);
  CHECK(files == std::set<std::string>{"tests/ir/builder_test.cpp"});

  // Returns the line that applies to an instruction.
  auto line_of = [&](const char* instruction) {
    size_t at = text.find(instruction);
    REQUIRE(at != std::string::npos);
    size_t loc = text.rfind(".loc", at);
    unsigned number = 0, line = 0;
    REQUIRE(std::sscanf(text.c_str() + loc, ".loc\t%u %u", &number, &line) == 2);
    return line;
  };
  CHECK(line_of("bar.sync 0;") == sync);
  CHECK(line_of("nanosleep.u32") == in_elect);
  CHECK(line_of("cp.async.bulk.tensor") == load);
  size_t first_wait = text.find("mbarrier.try_wait");
  CHECK(line_of(text.c_str() + text.find("mbarrier.try_wait", first_wait + 1)) == wait);
  size_t first_sleep = text.find("nanosleep.u32");
  CHECK(line_of(text.c_str() + text.find("nanosleep.u32", first_sleep + 1)) == sum);

  Kernel bare("bare", {.line_info = false});
  sync_threads();
  CHECK_FALSE(contains(ptx_of(bare), ".loc"));
}

TEST_CASE("a kernel's lifetime: moved, finished once, and built during another") {
  auto make = [] {
    Kernel k("k");
    sync_threads();
    return k;
  };
  Kernel k = make();
  CHECK(&Builder::current() == &k.builder());
  sync_threads();
  std::string first = ptx_of(k);
  CHECK(count(first, "bar.sync 0;") == 2);
  CHECK_THROWS_AS(Builder::current(), Error);
  k.builder().finish();  // more calls do nothing
  CHECK(count(k.builder().llvm_ir(), "ret void") == 1);

  Kernel outer("outer");
  {
    Kernel inner("inner");
    CHECK(&Builder::current() == &inner.builder());
    std::jthread([] { CHECK_THROWS_AS(Builder::current(), Error); }).join();
  }
  CHECK(&Builder::current() == &outer.builder());
  std::jthread([&] { outer.builder().finish(); }).join();  // a kernel may be finished in any thread
  CHECK_THROWS_AS(Builder::current(), Error);
  CHECK(contains(ptx_of(outer), ".visible .entry outer"));
}

TEST_CASE("LLVM can generate every operator of every type on every target") {
  auto all = []<class T>(const char* target, T) {
    using V = typename T::type;
    Kernel k("k", {.target = target, .line_info = false});
    auto [to, to_f32] = k.params<gptr<V>, gptr<f32>>("to", "to_f32");
    V a = to[0], b = to[1];
    to[2] = a + b;
    to[3] = a - b;
    to[4] = a * b;
    to[5] = a / b;
    to[6] = min(a, b);
    to[7] = max(a, b);
    to[8] = select(a < b, a, b);
    to[9] = select(a != b, a, b);
    if constexpr (requires { a % b; }) {
      to[10] = a % b;
      to[11] = (a & b) ^ (a | b);
      to[12] = a << b;
      to[13] = a >> b;
    }
    to_f32[0] = f32(select(a >= b, f32(1), f32(0)));
    if constexpr (!std::same_as<V, f32>) {
      to_f32[1] = f32(a);
      to[14] = V(to_f32[1].value());
    }
    if constexpr (!std::same_as<V, u64>) to[15] = V(u64(a));
    if constexpr (!std::same_as<V, s32>) to[16] = V(s32(a));
    return contains(ptx_of(k), "ret;");
  };
  for (const isa::Target& t : isa::targets()) {
    const char* target = t.name.data();
    CAPTURE(target);
    CHECK(all(target, std::type_identity<u16>()));
    CHECK(all(target, std::type_identity<s16>()));
    CHECK(all(target, std::type_identity<u32>()));
    CHECK(all(target, std::type_identity<s32>()));
    CHECK(all(target, std::type_identity<u64>()));
    CHECK(all(target, std::type_identity<s64>()));
    CHECK(all(target, std::type_identity<f16>()));
    CHECK(all(target, std::type_identity<bf16>()));
    CHECK(all(target, std::type_identity<f32>()));
    CHECK(all(target, std::type_identity<f64>()));
  }
}

TEST_CASE("64 kernels built on 8 threads equal those built one by one") {
  auto build = [](size_t i) {
    static const char* names[] = {"gemm_warp_specialized", "gemm_tile", "saxpy", "saxpy_tma", "hello"};
    const command::Family& family = command::family(names[i % 5]);
    command::Fields fields(family.fields);
    int64_t variant = static_cast<int64_t>(i / 5);
    if (i % 5 == 0) {
      fields.set("bn", 64 * (1 + variant % 4));
      fields.set("stages", 2 + variant % 3);
    }
    if (i % 5 == 2 || i % 5 == 4) fields.set("threads", 32 + variant);
    if (i % 5 == 3) fields.set("n", 32 + 4 * variant);
    Kernel k = family.build(fields);
    return generate_ptx(k.builder());
  };
  std::vector<std::string> expected, found(64);
  for (size_t i = 0; i < 64; ++i) expected.push_back(build(i));
  CHECK(std::set<std::string>(expected.begin(), expected.end()).size() > 45);  // gemm_tile has one form
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < 8; ++t)
      workers.emplace_back([&] {
        for (size_t i; (i = next++) < 64;) found[i] = build(i);
      });
  }
  for (size_t i = 0; i < 64; ++i) CHECK_MESSAGE(found[i] == expected[i], "kernel " << i);
}

}  // namespace ptxbuilder::test::builder_test
