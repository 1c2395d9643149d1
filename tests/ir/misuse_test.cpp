// Tests misuse of values, control flow and instructions. Each case throws an Error that names the rule, the
// values and the line, and has a twin that is accepted.
#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>

#include "misuse_kit.h"

namespace ptxbuilder::test::misuse_test {
namespace {

// Returns a value of type T that is known only on the device.
template <class T>
T unknown() {
  return T(tid_x());
}

std::vector<Value> emit(Kernel& k, const isa::Row& row, std::vector<Argument> arguments,
                        std::optional<pred> guard = std::nullopt, Where where = Where::here()) {
  return k.builder().emit(row, arguments, guard, where);
}

namespace row = isa::rows_def;

void fail_if(bool bad) {
  if (bad) throw std::runtime_error("the author's");
}
// Structs for parameters. One of them is valid.
struct Once {
  u32 x, y;
  static constexpr auto fields() { return std::tuple{field("x", &Once::x), field("y", &Once::y)}; }
};
struct Twice {
  u32 x, y;
  static constexpr auto fields() { return std::tuple{field("x", &Twice::x), field("x", &Twice::y)}; }
};
struct Reversed {
  u32 x, y;
  static constexpr auto fields() { return std::tuple{field("y", &Reversed::y), field("x", &Reversed::x)}; }
};

}  // namespace

TEST_CASE("ptx(): text of the author's own") {
  check_cases({
      {"a value of another class",
       {"ptx: operand 'a' is u32, but the value given is f32", "mov.u32 {d:=u32}, {a:u32};"},
       [](bool bad) {
         Kernel k("k");
         u32 a = tid_x();
         f32 f(a);
         Var<u32> d(0);
         PtxBinding b = bad ? PtxBinding("a", f) : PtxBinding("a", a);
         HERE ptx("mov.u32 {d:=u32}, {a:u32};", {{"d", d}, b});
         done(k);
       }},
      {"a Var of another class",
       {"the hole 'd' is u32, but its Var is f32"},
       [](bool bad) {
         Kernel k("k");
         Var<u32> d(0);
         Var<f32> f(0);
         PtxBinding b = bad ? PtxBinding("d", f) : PtxBinding("d", d);
         HERE ptx("mov.u32 {d:=u32}, 1;", {b});
         done(k);
       }},
      {"a value where a Var is written",
       {"the hole 'd' is written and needs a Var"},
       [](bool bad) {
         Kernel k("k");
         Var<u32> d(0);
         PtxBinding b = bad ? PtxBinding("d", tid_x()) : PtxBinding("d", d);
         HERE ptx("mov.u32 {d:=u32}, 1;", {b});
         done(k);
       }},
      {"a number that the register does not hold",
       {"operand 'a' must be from -2147483648 to 4294967295, but is 4294967296"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding b("a", bad ? int64_t{1} << 32 : (int64_t{1} << 32) - 1);
         HERE ptx("nanosleep.u32 {a:u32};", {b});
         done(k);
       }},
      {"a number where an address is wanted",
       {"operand 'a' is a smem register, but the number 5 was given"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding b = bad ? PtxBinding("a", 5) : PtxBinding("a", k.builder().shared_base());
         HERE ptx("mbarrier.inval.shared.b64 [{a:smem}];", {b});
         done(k);
       }},
      {"a register where an immediate is wanted",
       {"operand 'id' is an immediate: its value must be known while the kernel is built"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding b = bad ? PtxBinding("id", tid_x()) : PtxBinding("id", 1);
         HERE ptx("bar.sync {id:imm<0..15>};", {b});
         done(k);
       }},
      {"a hole without a binding",
       {"the hole 'b' is not bound"},
       [](bool bad) {
         Kernel k("k");
         const char* text = bad ? "bar.sync {a:u32}, {b:u32};" : "bar.sync {a:u32}, 128;";
         HERE ptx(text, {{"a", u32(1)}});
         done(k);
       }},
      {"a binding without a hole",
       {"no hole is named 'id'", "its holes are a, b"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding b(bad ? "id" : "b", u32(32));
         HERE ptx("bar.sync {a:u32}, {b:u32};", {{"a", u32(1)}, b});
         done(k);
       }},
      {"a hole bound twice",
       {"the hole 'a' is bound twice"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding b(bad ? "a" : "b", u32(32));
         HERE ptx("bar.sync {a:u32}, {b:u32};", {{"a", u32(1)}, b});
         done(k);
       }},
      {"a list of another length",
       {"ptx: operand 'v' is 2 registers, but 3 were given", "st.shared.v2.u32 [{at:smem}], {v:u32x2};"},
       [](bool bad) {
         Kernel k("k");
         std::vector<u32> v(bad ? 3 : 2, tid_x());
         PtxBinding at("at", k.builder().shared_base());
         HERE ptx("st.shared.v2.u32 [{at:smem}], {v:u32x2};", {at, {"v", v}});
         done(k);
       }},
      {"a list of Vars of another length",
       {"the hole 'v' is 2 registers, but 1 Vars were given"},
       [](bool bad) {
         Kernel k("k");
         Var<u32> a(0), b(0);
         PtxBinding at("at", k.builder().shared_base()),
             v = bad ? PtxBinding("v", {a}) : PtxBinding("v", {a, b});
         HERE ptx("ld.shared.v2.u32 {v:=u32x2}, [{at:smem}];", {at, v});
         done(k);
       }},
      {"a list where one value is written",
       {"the hole 'v' is written and needs a Var"},
       [](bool bad) {
         Kernel k("k");
         Var<u32> a(0), b(0);
         PtxBinding at("at", k.builder().shared_base());
         PtxBinding v = bad ? PtxBinding("v", {a, b.value()}) : PtxBinding("v", {a, b});
         HERE ptx("ld.shared.v2.u32 {v:=u32x2}, [{at:smem}];", {at, v});
         done(k);
       }},
      {"a list for one register",
       {"operand 'a' is 1 registers, but 2 were given"},
       [](bool bad) {
         Kernel k("k");
         PtxBinding a = bad ? PtxBinding("a", {u32(1), u32(2)}) : PtxBinding("a", {u32(1)});
         HERE ptx("nanosleep.u32 {a:u32};", {a});
         done(k);
       }},
      {"a name that was given no class",
       {"a hole needs a name and, the first time, a class: {name:class} in \"add.u32 {d:=u32}, {a}, {a};\""},
       [](bool bad) {
         Kernel k("k");
         Var<u32> d(0);
         const char* text = bad ? "add.u32 {d:=u32}, {a}, {a};" : "add.u32 {d:=u32}, {a:u32}, {a};";
         HERE ptx(text, {{"d", d}, {"a", u32(1)}});
         done(k);
       }},
      {"a hole of no class",
       {"a hole has an unknown class in \"nanosleep.u32 {a:u31};\""},
       [](bool bad) {
         Kernel k("k");
         const char* text = bad ? "nanosleep.u32 {a:u31};" : "nanosleep.u32 {a:u32};";
         HERE ptx(text, {{"a", u32(1)}});
         done(k);
       }},
  });
}

TEST_CASE("instructions: operands, immediates, guards, targets") {
  check_cases({
      {"an immediate out of range",
       {"bar_sync_all: operand 'id' must be from 0 to 15, but is 16"},
       [](bool bad) {
         Kernel k("k");
         HERE bar_sync_all(bad ? 16 : 15);
         done(k);
       }},
      {"an immediate off its step",
       {"setmaxnreg_dec: operand 'registers' must be from 24 to 256 in steps of 8, but is 41"},
       [](bool bad) {
         Kernel k("k");
         HERE setmaxnreg_dec(bad ? 41 : 40);
         done(k);
       }},
      {"too few operands, untyped",
       {"bar_sync: takes 2 operands, but 1 was given"},
       [](bool bad) {
         Kernel k("k");
         std::vector<Argument> arguments = {u32(1)};
         if (!bad) arguments.emplace_back(u32(128));
         HERE emit(k, row::bar_sync, arguments);
         done(k);
       }},
      {"an operand for an instruction without any, untyped",
       {"tid_x: takes 0 operands, but 1 was given"},
       [](bool bad) {
         Kernel k("k");
         std::vector<Argument> arguments(bad ? 1 : 0, u32(128));
         HERE emit(k, row::tid_x, arguments);
         done(k);
       }},
      {"a wider value, untyped",
       {"bar_warp_sync: operand 'membermask' is b32, but the value given is u64"},
       [](bool bad) {
         Kernel k("k");
         Argument mask = bad ? Argument(unknown<u64>()) : Argument(unknown<s32>());
         HERE emit(k, row::bar_warp_sync, {mask});
         done(k);
       }},
      {"an integer for an address, untyped",
       {"mbarrier_arrive: operand 'bar' is smem, but the value given is u32"},
       [](bool bad) {
         Kernel k("k");
         Argument address = bad ? Argument(tid_x()) : Argument(k.builder().shared_base());
         HERE emit(k, row::mbarrier_arrive, {address});
         done(k);
       }},
      {"a constant of another width, untyped",
       {"nanosleep: operand 'nanoseconds' is u32, but the value given is u64"},
       [](bool bad) {
         Kernel k("k");
         Argument time = bad ? Argument(u64(7)) : Argument(u32(7));
         HERE emit(k, row::nanosleep, {time});
         done(k);
       }},
      {"a list of another length",
       {"stmatrix_x4: operand 'r' is 4 registers, but 3 were given"},
       [](bool bad) {
         Kernel k("k");
         smem to = k.builder().shared_base();
         std::vector<Value> list(bad ? 3 : 4, tid_x());
         HERE emit(k, isa::stmatrix({.matrices = 4}), {to, list});
         done(k);
       }},
      {"named registers of another number",
       {"wgmma_mma_async_m64n8k16_f32_f16_f16_ss: operand 'd' is 4 registers, but 8 were given"},
       [](bool bad) {
         Kernel k("k");
         Registers d = k.builder().declare_registers(Class::f32, bad ? 8 : 4);
         const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::f16, DType::f16, 8});
         u64 a = unknown<u64>();
         int64_t one = 1;
         HERE emit(k, wgmma, {d, a, a, pred(true), one, one, one, one});
         done(k);
       }},
      {"named registers that nothing declares",
       {"wgmma_mma_async_m64n8k16_f32_f16_f16_ss: operand 'd' names the register acc9_0, which no .reg "
        "statement of the function declares"},
       [](bool bad) {
         Kernel k("k");
         Registers d = k.builder().declare_registers(Class::f32, 4);
         if (bad) d.base = "acc9_";
         const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::f16, DType::f16, 8});
         u64 a = unknown<u64>();
         int64_t one = 1;
         HERE emit(k, wgmma, {d, a, a, pred(true), one, one, one, one});
         done(k);
       }},
      {"named registers of another type",
       {"wgmma_mma_async_m64n8k16_f32_f16_f16_ss: operand 'd' is a .f32 register, but acc0_0 is declared as "
        ".b64"},
       [](bool bad) {
         Kernel k("k");
         Registers d = k.builder().declare_registers(bad ? Class::u64 : Class::b32, 4);
         const isa::Row& wgmma = isa::wgmma_mma_async({DType::f32, DType::f16, DType::f16, 8});
         u64 a = unknown<u64>();
         int64_t one = 1;
         HERE emit(k, wgmma, {d, a, a, pred(true), one, one, one, one});
         done(k);
       }},
      {"named registers of a floating-point type where bits are wanted",
       {"stmatrix_x4: operand 'r' is a .b32 register, but acc0_0 is declared as .f32"},
       [](bool bad) {
         Kernel k("k");
         smem to = k.builder().shared_base();
         Registers s = k.builder().declare_registers(bad ? Class::f32 : Class::u32, 4);
         HERE emit(k, isa::stmatrix({.matrices = 4}), {to, s});
         done(k);
       }},
      {"named registers past the end",
       {"stmatrix_x4: operand 'r' names the register acc0_8, but the last one that is declared is acc0_7"},
       [](bool bad) {
         Kernel k("k");
         smem to = k.builder().shared_base();
         Registers s = k.builder().declare_registers(Class::b32, 8);
         HERE emit(k, isa::stmatrix({.matrices = 4}), {to, s.slice(bad ? 5 : 4, 4)});
         done(k);
       }},
      {"tcgen05 for one CTA and for a pair in one kernel",
       {"tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned: .cta_group is 2, but 1 in k earlier, set "
        "by "
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned at misuse_test.cpp:",
        "all tcgen05 instructions of a kernel must have the same"},
       [](bool bad) {
         Kernel k("k");
         const char* text = bad ? "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;"
                                : "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
         ptx("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", {});
         HERE ptx(text, {});
         done(k);
       }},
      {"instructions that no target has together",
       {"ptx: tcgen05.fence::before_thread_sync: needs sm_100f, sm_110f, but wgmma_fence needs sm_90a at "
        "misuse_test.cpp:",
        "no target supports both"},
       [](bool bad) {
         Kernel k("k");
         wgmma_fence();
         HERE ptx(bad ? "tcgen05.fence::before_thread_sync;" : "wgmma.fence.sync.aligned;", {});
         done(k);
       }},
      {"text above the target",
       {"ptx: tcgen05.fence::before_thread_sync: needs sm_100f, sm_110f, but the kernel's target is sm_90a; "
        "the lowest target that supports it is sm_100a"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_90a" : "sm_100a"));
         HERE ptx("tcgen05.fence::before_thread_sync;", {});
         done(k);
       }},
      {"a guard on an instruction with a result, untyped",
       {"mbarrier_arrive_state: cannot be guarded: 'state' would be undefined"},
       [](bool bad) {
         Kernel k("k");
         smem bar = k.builder().shared_base();
         std::optional<pred> guard;
         if (bad) guard = tid_x() == 0;
         HERE emit(k, row::mbarrier_arrive_state, {bar}, guard);
         done(k);
       }},
      {"a guard on a special register, untyped",
       {"laneid: cannot be guarded: 'd' would be undefined"},
       [](bool bad) {
         Kernel k("k");
         std::optional<pred> guard;
         if (bad) guard = tid_x() == 0;
         HERE emit(k, row::laneid, {}, guard);
         done(k);
       }},
      {"an instruction above the target: wgmma on sm_90",
       {"wgmma_fence: needs sm_90a, but the kernel's target is sm_90; the lowest target that supports it is "
        "sm_90a"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_90" : "sm_90a"));
         HERE wgmma_fence();
         done(k);
       }},
      {"an instruction above the target: TMA on sm_89",
       {"cp_async_bulk_commit_group: needs sm_90, but the kernel's target is sm_89"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_89" : "sm_90"));
         HERE cp_async_bulk_commit_group();
         done(k);
       }},
      {"a special register above the target",
       {"cluster_ctarank: needs sm_90, but the kernel's target is sm_80"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_80" : "sm_90"));
         HERE cluster_ctarank();
         done(k);
       }},
      {"a role's registers on sm_90",
       {"setmaxnreg_dec: needs sm_90a, sm_100f, sm_110f, sm_120f, but the kernel's target is sm_90"},
       [](bool bad) {
         Kernel k("k", ON("sm_90"));
         HERE k.warpgroups(1, bad ? 40 : 0, [](u32) {});
         done(k);
       }},
      {"wgmma of no such n",
       {"m64n12k16.f32.bf16.bf16 does not exist; n is 8 to 256 in steps of 8 (d = f16 or f32)"},
       [](bool bad) {
         HERE isa::wgmma_mma_async({DType::f32, DType::bf16, DType::bf16, bad ? 12 : 16});
       }},
  });
}

TEST_CASE("a kernel's name, target, launch and parameters") {
  check_cases({
      {"an unknown target",
       {"'sm_91' is not one of sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a"},
       [](bool bad) {
         HERE Kernel k("k", ON(bad ? "sm_91" : "sm_90"));
         done(k);
       }},
      {"a name that is not an identifier",
       {"the name '2k' must be a C identifier"},
       [](bool bad) {
         HERE Kernel k(bad ? "2k" : "k2");
         done(k);
       }},
      {"no threads",
       {"a CTA must have 1 to 1024 threads, not 0"},
       [](bool bad) {
         Kernel k("k");
         HERE k.threads(bad ? 0 : 1);
         done(k);
       }},
      {"too many threads",
       {"a CTA must have 1 to 1024 threads, not 1025"},
       [](bool bad) {
         Kernel k("k");
         HERE k.threads(bad ? 1025 : 1024);
         done(k);
       }},
      {"too large a cluster",
       {"cluster: 4 x 5 x 1 CTAs were requested, but a cluster must have 1 to 16"},
       [](bool bad) {
         Kernel k("k");
         HERE k.cluster(4, bad ? 5 : 4);
         done(k);
       }},
      {"an empty cluster",
       {"cluster: 2 x 0 x 1 CTAs"},
       [](bool bad) {
         Kernel k("k");
         HERE k.cluster(2, bad ? 0 : 1);
         done(k);
       }},
      {"a cluster on sm_89",
       {"cluster: needs sm_90, but the kernel's target is sm_89"},
       [](bool bad) {
         Kernel k("k", ON(bad ? "sm_89" : "sm_90"));
         HERE k.cluster(2);
         done(k);
       }},
      {"two parameters of one name",
       {"parameter 1: the name 'x' is taken"},
       [](bool bad) {
         Kernel k("k");
         HERE k.params<u32, f32>("x", bad ? "x" : "y");
         done(k);
       }},
      {"a parameter without a name",
       {"parameter 1: the name '' must be a C identifier"},
       [](bool bad) {
         Kernel k("k");
         HERE k.params<u32, f32>("x", bad ? "" : "y");
         done(k);
       }},
      {"two fields of one name",
       {"s: field 1: the name 'x' is taken"},
       [](bool bad) {
         Kernel k("k");
         if (bad) {
           HERE k.params<Twice>("s");
         } else {
           k.params<Once>("s");
         }
         done(k);
       }},
      {"fields in another order than the members",
       {"params: the field 'y' is not at the offset of its member"},
       [](bool bad) {
         Kernel k("k");
         if (bad) {
           HERE k.params<Reversed>("s");
         } else {
           k.params<Once>("s");
         }
         done(k);
       }},
      {"parameters after the first instruction",
       {"k: parameters must be declared once, before the first instruction"},
       [](bool bad) {
         Kernel k("k");
         if (bad) sync_threads();
         HERE k.params<u32>("x");
         done(k);
       }},
      {"parameters declared twice",
       {"k: parameters must be declared once"},
       [](bool bad) {
         Kernel k("k");
         if (bad) k.params<u32>("x");
         HERE k.params<u32>("y");
         done(k);
       }},
      {"a kernel that is finished",
       {"k: it is used after it was finished"},
       [](bool bad) {
         Kernel k("k");
         if (bad) done(k);
         HERE k.threads(32);
       }},
      {"a kernel next to the one being built",
       {"first: this is not the kernel that is being built on this thread: that is second, begun at "
        "misuse_test.cpp:",
        "finish or destroy it first"},
       [](bool bad) {
         Kernel first("first");
         Kernel second("second");
         HERE(bad ? first : second).threads(32);
       }},
      {"a kernel that was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         Kernel other = std::move(k);
         HERE(bad ? k : other).threads(32);
       }},
      {"the name of a kernel that was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         Kernel other = std::move(k);
         HERE const std::string name = (bad ? k : other).signature().kernel;
         CHECK(name == "k");
       }},
      {"parameters of a kernel that was moved from",
       {"kernel: it is used after it was moved from"},
       [](bool bad) {
         Kernel k("k");
         Kernel other = std::move(k);
         HERE(bad ? k : other).params<u32>("x");
       }},
  });
}

TEST_CASE("exceptions out of the author's bodies") {
  check_cases({
      {"out of a branch",
       {"k: an exception from the body of this if_ left it unfinished: the author's"},
       [](bool bad) {
         Kernel k("k");
         try {
           HERE if_(tid_x() == 0, [&] { fail_if(bad); });
         } catch (const std::runtime_error&) {
         }
         done(k);
       }},
      {"out of the other branch",
       {"k: an exception from the body of this if_ left it unfinished: the exception is not a "
        "std::exception"},
       [](bool bad) {
         Kernel k("k");
         try {
           HERE if_(
               tid_x() == 0, [] {},
               [&] {
                 if (bad) throw 1;
               },
               marked);
         } catch (int) {
         }
         done(k);
       }},
      {"out of a loop in a branch: the innermost is named",
       {"k: an exception from the body of this for_ left it unfinished: the author's"},
       [](bool bad) {
         Kernel k("k");
         try {
           if_(tid_x() == 0, [&] { HERE for_(0, u32(4), [&](u32) { fail_if(bad); }); });
         } catch (const std::runtime_error&) {
         }
         done(k);
       }},
      {"out of a condition",
       {"k: an exception from the body of this while_ left it unfinished: the author's"},
       [](bool bad) {
         Kernel k("k");
         auto condition = [&] {
           fail_if(bad);
           return tid_x() < 0;
         };
         try {
           HERE while_(condition, [] {});
         } catch (const std::runtime_error&) {
         }
         done(k);
       }},
      {"and then an instruction",
       {"k: an exception from the body of this while_ left it unfinished: the author's"},
       [](bool bad) {
         Kernel k("k");
         try {
           HERE while_([] { return tid_x() < 0; }, [&] { fail_if(bad); });
         } catch (const std::runtime_error&) {
         }
         wgmma_fence();
         done(k);
       }},
  });

  // An error that is caught inside the body leaves the kernel intact.
  Kernel k("k");
  if_(tid_x() == 0, [] { CHECK_THROWS_AS(fail_if(true), std::runtime_error); });
  done(k);
}

TEST_CASE("a kernel that could not be finished throws the same error again") {
  Kernel k("k");
  k.params<TensorMap>("A");
  const std::string first = error_of([&] { k.builder().finish(); });
  CHECK(contains(first, "k: no copy uses the tensor map 'A'"));
  CHECK(error_of([&] { k.builder().finish(); }) == first);
  CHECK_THROWS_AS(Builder::current(), Error);
}

TEST_CASE("a kernel is built during another") {
  Kernel outer("outer");
  auto [out] = outer.params<gptr<u32>>("out");
  u32 i = tid_x();
  {
    Kernel inner("inner");
    auto [p] = inner.params<gptr<u32>>("p");
    p[tid_x()] = 1;
    done(inner);
    CHECK(Builder::current().signature().kernel == "outer");
    Kernel dropped("dropped");
  }
  out[i] = i;
  const std::string text = ptx_of(outer);
  CHECK(contains(text, ".visible .entry outer("));
  CHECK(count(text, "st.global") == 1);
  CHECK_THROWS_AS(Builder::current(), Error);
}

TEST_CASE("a kernel is finished and destroyed on another thread") {
  {
    Kernel outer("outer");
    std::optional<Kernel> inner("inner");
    std::jthread([&] {
      done(*inner);
      inner.reset();
    }).join();
    CHECK(Builder::current().signature().kernel == "outer");
    done(outer);
  }
  CHECK_THROWS_AS(Builder::current(), Error);
}

TEST_CASE("values and control flow") {
  check_cases({
      {"no kernel: a constant",
       {"no kernel is being built on this thread: make a Kernel first"},
       [](bool bad) {
         std::optional<Kernel> k;
         if (!bad) k.emplace("k");
         HERE u32 one = 1;
         CHECK(one.handle() != nullptr);
       }},
      {"no kernel: an instruction",
       {"no kernel is being built on this thread"},
       [](bool bad) {
         std::optional<Kernel> k;
         if (!bad) k.emplace("k");
         HERE tid_x();
       }},
      {"a negative constant",
       {"the constant -1 does not fit in u32"},
       [](bool bad) {
         Kernel k("k");
         HERE u32 x = bad ? -1 : 1;
         CHECK(x.handle() != nullptr);
         done(k);
       }},
      {"a constant too large",
       {"the constant 4294967296 does not fit in u32"},
       [](bool bad) {
         Kernel k("k");
         HERE u32 x = (int64_t{1} << 32) - !bad;
         CHECK(x.handle() != nullptr);
         done(k);
       }},
      {"a constant too large for the largest type",
       {"the constant 9223372036854775808 does not fit in s64"},
       [](bool bad) {
         Kernel k("k");
         HERE s64 x = (uint64_t{1} << 63) - !bad;
         CHECK(x.handle() != nullptr);
         done(k);
       }},
      {"a constant too small",
       {"the constant -32769 does not fit in s16"},
       [](bool bad) {
         Kernel k("k");
         HERE s16 x = -32768 - bad;
         CHECK(x.handle() != nullptr);
         done(k);
       }},
      {"division by the constant 0",
       {"division by the constant 0"},
       [](bool bad) {
         Kernel k("k");
         u32 x = tid_x();
         HERE x = x / (bad ? 0 : 3);
         CHECK((x + 7).handle() != nullptr);  // another constant
         done(k);
       }},
      {"the remainder of a division by the constant 0",
       {"division by the constant 0"},
       [](bool bad) {
         Kernel k("k");
         s32 x = unknown<s32>();
         HERE x = x % (bad ? 0 : 3);
         done(k);
       }},
      {"a shift by the width",
       {"the shift by 32 must be by less than the 32 bits of the value"},
       [](bool bad) {
         Kernel k("k");
         HERE u32 x = tid_x() << (bad ? 32 : 31);
         CHECK(x.handle() != nullptr);
         done(k);
       }},
      {"a bit_cast to another width",
       {"bit_cast: u32 and u64 differ in width"},
       [](bool bad) {
         Kernel k("k");
         u32 x = tid_x();
         HERE bad ? void(bit_cast<u64>(x)) : void(bit_cast<f32>(x));
         done(k);
       }},
      {"a negative index",
       {"the constant -1 does not fit in u32"},
       [](bool bad) {
         Kernel k("k");
         auto [x] = k.params<gptr<f32>>("x");
         HERE x[bad ? -1 : 1] = f32(1);
         done(k);
       }},
      {"a value of another kernel in arithmetic",
       {"second: the value belongs to another kernel"},
       [](bool bad) {
         Kernel first("first");
         u32 a = tid_x();
         Kernel second("second");
         u32 b = tid_x();
         HERE bar_warp_sync((bad ? a : b));
         done(second);
       }},
      {"a value of another kernel in a store",
       {"second: the value belongs to another kernel"},
       [](bool bad) {
         Kernel first("first");
         u32 a = tid_x();
         Kernel second("second");
         auto [x] = second.params<gptr<u32>>("x");
         u32 b = tid_x();
         HERE x[0] = bad ? a : b;
         done(second);
       }},
      {"a value of another kernel as a condition",
       {"second: the value belongs to another kernel"},
       [](bool bad) {
         Kernel first("first");
         pred a = tid_x() == 0;
         Kernel second("second");
         pred b = tid_x() == 0;
         HERE if_(bad ? a : b, [] {});
         done(second);
       }},
      {"a value of another kernel as a guard",
       {"second: the value belongs to another kernel"},
       [](bool bad) {
         Kernel first("first");
         pred a = tid_x() == 0;
         Kernel second("second");
         pred b = tid_x() == 0;
         HERE ptxbuilder::nanosleep.when(bad ? a : b)(u32(1));
         done(second);
       }},
      {"LLVM's value out of its branch",
       {"k: a value made at misuse_test.cpp:", "is used outside the branch or loop that makes it"},
       [](bool bad) {
         Kernel k("k");
         u32 x = tid_x();
         llvm::Value* handle = x.handle();
         if_(x == 0, [&] { handle = (bad ? ctaid_x() : x).handle(); });
         HERE ptxbuilder::nanosleep(u32(handle));
         sync_threads();
         done(k);
       }},
      {"a loop whose step is 0",
       {"for_: the step is 0, so the loop would never end"},
       [](bool bad) {
         Kernel k("k");
         HERE for_(0, tid_x(), bad ? 0 : 1, [](u32) {});
         done(k);
       }},
      {"print: too few values",
       {"print: \"%u %u\" converts 2 values, but 1 were given"},
       [](bool bad) {
         Kernel k("k");
         HERE print(bad ? "%u %u" : "%u", {tid_x()});
         done(k);
       }},
      {"print: a value of another type",
       {"print: %f in \"%f\" does not print a value that is u32"},
       [](bool bad) {
         Kernel k("k");
         HERE print(bad ? "%f" : "%u", {tid_x()});
         done(k);
       }},
      {"print: a value of another width",
       {"print: %u in \"%u\" does not print a value that is u64"},
       [](bool bad) {
         Kernel k("k");
         HERE print(bad ? "%u" : "%llu", {unknown<u64>()});
         done(k);
       }},
      {"print: an unknown conversion",
       {"print: the conversion at column 3 of \"x %s\" must be one of"},
       [](bool bad) {
         Kernel k("k");
         HERE print(bad ? "x %s" : "x %d", {tid_x()});
         done(k);
       }},
      {"print: a value of another kernel",
       {"second: the value belongs to another kernel"},
       [](bool bad) {
         Kernel first("first");
         u32 a = tid_x();
         Kernel second("second");
         u32 b = tid_x();
         HERE print("%u", {bad ? a : b});
         done(second);
       }},
  });
}

}  // namespace ptxbuilder::test::misuse_test
