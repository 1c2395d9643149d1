// Tests values that belong to the body of a branch, a loop or a role. Assignments that would need a variable
// on the device are refused, and C++ code on host values works as usual.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "misuse_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::region_test {
namespace {

constexpr const char* kAssigned = "assignment to a value that was made outside of the body of the ";
constexpr const char* kEnded = "is used outside the branch or loop that makes it; carry it in a Var";
constexpr const char* kVarEnded = "a Var is used outside the branch or loop that makes it";

struct Pair {
  u32 first, second;
};

// A kernel with pointers to u32 and f32.
struct Subject {
  Kernel k = Kernel("k");
  gptr<u32> p;
  gptr<f32> f;

  Subject() : Subject(Kernel("k")) {}

 private:
  explicit Subject(Kernel kernel) : Subject(kernel, kernel.params<gptr<u32>, gptr<f32>>("p", "f")) {}
  Subject(Kernel& kernel, std::tuple<gptr<u32>, gptr<f32>> parameters)
      : k(std::move(kernel)), p(std::get<0>(parameters)), f(std::get<1>(parameters)) {}
};

}  // namespace

TEST_CASE("a value is assigned in a branch, a loop or a role") {
  check_cases({
      {"a constant in a branch",
       {kAssigned, "if_ at region_test.cpp:", "make the value a Var"},
       [](bool bad) {
         Subject s;
         u32 x = 7;
         Var<u32> good(7u);
         if_(tid_x() < 5u, [&] { HERE bad ? void(x = x + 1) : void(good = good.value() + 1); });
         s.p[tid_x()] = bad ? x : good.value();
         done(s.k);
       }},
      {"a flag in a branch in a loop",
       {kAssigned, "if_ at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         u32 found = 0;
         Var<u32> good(0u);
         for_(0, u32(4),
              [&](u32 i) { if_(s.p[i] == 77u, [&] { HERE bad ? void(found = 1) : void(good = 1u); }); });
         s.p[tid_x()] = bad ? found : good.value();
         done(s.k);
       }},
      {"a predicate in a loop",
       {kAssigned, "for_ at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         pred first(true);
         Var<pred> good(pred(true));
         for_(0, u32(4), [&](u32 i) {
           if_(bad ? first : good.value(), [&] { s.p[i] = 9u; });
           HERE bad ? void(first = pred(false)) : void(good = pred(false));
         });
         done(s.k);
       }},
      {"a phase in a while_",
       {kAssigned, "while_ at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         u32 phase = 0;
         Var<u32> good(0u);
         while_([&] { return s.p[0] == 1u; },
                [&] { HERE bad ? void(phase = phase ^ 1u) : void(good ^= 1u); });
         done(s.k);
       }},
      {"a value in a role",
       {kAssigned, "role at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         u32 x = 1;
         s.k.warpgroups(1, 40, [&](u32) {
           u32 own = 1;
           HERE bad ? void(x = 2) : void(own = 2);
           s.p[tid_x()] = own;
         });
         done(s.k);
       }},
      {"a value in elect",
       {kAssigned, "elect at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         u32 x = 1;
         elect([&] {
           u32 own = x;
           HERE bad ? void(x = 2) : void(own = 2);
           s.p[tid_x()] = own;
         });
         done(s.k);
       }},
      {"a member of a struct",
       {kAssigned},
       [](bool bad) {
         Subject s;
         Pair pair = {1, 2};
         if_(tid_x() == 0u, [&] {
           Pair own = pair;
           HERE bad ? void(pair = {3, 4}) : void(own = {3, 4});
           s.p[0] = own.second;
         });
         done(s.k);
       }},
      {"std::swap with a value from outside",
       {kAssigned},
       [](bool bad) {
         Subject s;
         u32 a = 1, b = 2;
         if (!bad) std::swap(a, b);
         HERE if_(tid_x() == 0u, [&] {
           if (bad) std::swap(a, b);
         });
         s.p[0] = a;
         done(s.k);
       }},
      {"a tile in a branch",
       {kAssigned},
       [](bool bad) {
         Subject s;
         RegisterTile<f32> x(1, strided({16, 64}, 4));
         Var<RegisterTile<f32>> good(x);
         if_(s.p[0] == 77u, [&] { HERE bad ? void(x = x + 1) : void(good = x + 1); });
         store(s.f, bad ? x : good.value());
         done(s.k);
       }},
      {"a partial reduction in a loop",
       {kAssigned},
       [](bool bad) {
         Subject s;
         RegisterTile<f32> x(1, strided({16, 64}, 4));
         auto sums = partial_rows<Reduction::add>(x);
         Var<Partial<f32, Reduction::add>> good(sums);
         for_(0, u32(4), [&](u32) {
           HERE bad ? void(sums = sums + partial_rows<Reduction::add>(x))
                    : void(good += partial_rows<Reduction::add>(x));
         });
         done(s.k);
       }},
      {"a stage in a loop",
       {kAssigned},
       [](bool bad) {
         Subject s;
         auto tile = s.k.shared<f32>({1, 128}, SwizzleNone, 2);
         Pipeline pipe(s.k, 2, {tile}, 1);
         s.k.warpgroups(1, 0, [&](u32) {
           auto ring = pipe.producer();
           elect([&] { bulk_load(tile[ring.acquire()], s.f, u32(0)); });
         });
         s.k.warpgroups(1, 0, [&](u32) {
           auto ring = pipe.consumer();
           Stage last = ring.wait();
           Var<Stage> good(last);
           for_(0, u32(4), [&](u32) { HERE bad ? void(last = ring.wait()) : void(good = ring.wait()); });
           ring.release(good);
           ring.release(last);
         });
         done(s.k);
       }},
      {"a vector that takes another's memory",
       {"a value that was made outside of the body of the for_ at region_test.cpp:",
        "is replaced or destroyed"},
       [](bool bad) {
         Subject s;
         std::vector<u32> v = {s.p[0], s.p[1]};
         HERE for_(0, u32(4), [&](u32 i) {
           std::vector<u32> own = v;
           (bad ? v : own) = std::vector<u32>{v[0] + i};
           s.p[i] = own[0];
         });
         done(s.k);
       }},
      {"an optional made anew",
       {"is replaced or destroyed in it"},
       [](bool bad) {
         Subject s;
         std::optional<u32> a(s.p[0]);
         HERE for_(0, u32(4), [&](u32 i) {
           std::optional<u32> own = a;
           (bad ? a : own).emplace(*a + i);
         });
         done(s.k);
       }},
      {"tiles in shared memory, exchanged round by round",
       {kAssigned},
       [](bool bad) {
         Subject s;
         auto a = s.k.shared<f32>({1, 128}), b = s.k.shared<f32>({1, 128});
         if (!bad) std::swap(a, b);
         HERE for_(0, u32(4), [&](u32) {
           if (bad) std::swap(a, b);
         });
         done(s.k);
       }},
      {"an index that becomes known in a branch",
       {kAssigned},
       [](bool bad) {
         Subject s;
         Index a(s.p[0]);
         HERE if_(s.p[1] == 5u, [&] {
           Index own = a;
           (bad ? a : own) = Index(64);
         });
         done(s.k);
       }},
      {"an optional in both branches",
       {kEnded},
       [](bool bad) {
         Subject s;
         u32 one = 1, two = 2;
         std::optional<u32> x;
         Var<u32> good(one);
         if_(
             tid_x() == 0u, [&] { bad ? void(x = one) : void(good = one); },
             [&] { bad ? void(x = two) : void(good = two); });
         HERE s.p[0] = bad ? *x : good.value();
         done(s.k);
       }},
  });
}

TEST_CASE("a value of a branch, a loop or a role is used after its end") {
  check_cases({
      {"a constant by emplace",
       {kEnded, "k: a value made at region_test.cpp:"},
       [](bool bad) {
         Subject s;
         std::optional<u32> x;
         if (!bad) x.emplace(u32(5));
         if_(tid_x() < 5u, [&] {
           if (bad) x.emplace(u32(5));
         });
         HERE s.p[tid_x()] = *x;
         done(s.k);
       }},
      {"values in a vector",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::vector<u32> made;
         if (!bad) made.push_back(tid_x());
         for_(0, u32(4), [&](u32 i) {
           if (bad) made.push_back(i);
         });
         HERE s.p[0] = made[0];
         done(s.k);
       }},
      {"the memory of a vector that grew, or was swapped",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::vector<u32> a = {1, 2};
         if_(tid_x() == 0u, [&] {
           std::vector<u32> b = {3, 4};
           if (bad) a.swap(b);
         });
         HERE s.p[0] = a[0];
         done(s.k);
       }},
      {"a value of another role",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::optional<u32> x;
         if (!bad) x.emplace(s.p[0]);
         s.k.warpgroups(1, 40, [&](u32) {
           if (bad) x.emplace(s.p[tid_x()] * 2);
         });
         HERE s.k.warpgroups(1, 40, [&](u32) { s.p[tid_x()] = *x; });
         done(s.k);
       }},
      {"the index of a loop",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::map<int, u32> kept;
         if (!bad) kept.emplace(0, 1);
         for_(0, u32(4), [&](u32 i) {
           if (bad) kept.emplace(0, i);
         });
         HERE s.p[0] = kept.at(0);
         done(s.k);
       }},
      {"a tile of a branch",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::vector<RegisterTile<f32>> kept;
         const RegisterTile<f32> one(1, strided({16, 64}, 4));
         if (!bad) kept.push_back(one);
         if_(s.p[0] == 1u, [&] {
           if (bad) kept.push_back(one);
         });
         HERE store(s.f, kept[0]);
         done(s.k);
       }},
      {"a copy of what has ended",
       {kEnded},
       [](bool bad) {
         Subject s;
         std::deque<Pair> kept;
         if_(tid_x() == 0u, [&] { kept.push_back({1, 2}); });
         Pair copy = kept.front();
         if (!bad) copy = Pair{3, 4};  // starts with a new value
         HERE s.p[0] = copy.first;
         done(s.k);
       }},
  });
  // Reading a Var has no source line.
  check_cases(
      {
          {"a Var of a branch",
           {kVarEnded},
           [](bool bad) {
             Subject s;
             std::optional<Var<u32>> x;
             if (!bad) x.emplace(u32(0));
             if_(tid_x() == 0u, [&] {
               if (bad) x.emplace(u32(0));
             });
             bar_warp_sync(u32(1) + x->value());
             done(s.k);
           }},
          {"a Var of a tile",
           {kVarEnded},
           [](bool bad) {
             Subject s;
             const RegisterTile<f32> one(1, strided({16, 64}, 4));
             std::optional<Var<RegisterTile<f32>>> x;
             if (!bad) x.emplace(one);
             if_(s.p[0] == 1u, [&] {
               if (bad) x.emplace(one);
             });
             s.f[0] = f32(1) + x->value().value(0);
             done(s.k);
           }},
      },
      false);
}

TEST_CASE("operations of a warpgroup without some of its threads") {
  auto tile = [] { return RegisterTile<f32>(1, strided({16, 64}, 4)); };
  check_cases({
      {"a store in elect",
       {"register tile: all 128 threads of a warpgroup must call this together, but in the elect at "
        "region_test.cpp:",
        "only one elected lane of each warp of threads 0 to 31 enters; call it outside"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         auto body = [&] { HERE store(s.f, x); };
         bad ? elect(body) : body();
         done(s.k);
       }},
      {"a reduction in half of the warps",
       {"reduce: all 128 threads", "if_ at region_test.cpp:", "only threads 0 to 63 enter;"},
       [=](bool bad) {
         Subject s;
         auto x = load<f32>(s.f, wgmma_layout(64, 64));
         if_(tid_x() < (bad ? 64 : 128), [&] { HERE s.f[0] = reduce_all(Reduction::add, x); });
         done(s.k);
       }},
      {"a store in the else of a thread",
       {"register tile: all 128 threads", "only threads 1 to 1023 enter;"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         pred nobody = s.p[0] == 3u;
         if_(
             bad ? tid_x() == 0u : nobody, [] {}, [&] { HERE store(s.f, x); });
         done(s.k);
       }},
      {"a meeting in one warp of a role",
       {"sync_warpgroup: all 128 threads", "only threads 32 to 63 enter;"},
       [=](bool bad) {
         Subject s;
         s.k.warpgroups(1, 40, [&](u32) {
           if_(bad ? warp_index() == 1u : warp_index() / 4 == 0u, [&] { HERE sync_warpgroup(); });
         });
         done(s.k);
       }},
      {"a store where a per-thread index is in bounds",
       {"register tile: all 128 threads", "threads may enter without the others, since the condition"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         const u32 i = ctaid_x() * 128 + (bad ? tid_x() : tid_x() / 128);
         if_(i < s.p[0], [&] { HERE store(s.f, x); });
         done(s.k);
       }},
      {"a store where what each thread has loaded lets it in",
       {"threads may enter without the others"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         if_(s.p[bad ? tid_x() : ctaid_x()] < 64u, [&] { HERE store(s.f, x); });
         done(s.k);
       }},
      {"a store by a flag that some threads set",
       {"threads may enter without the others"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         Var<u32> flag(0u);
         if_(tid_x() < (bad ? 64u : 128u), [&] { flag = 1u; });
         if_(flag == 1u, [&] { HERE store(s.f, x); });
         done(s.k);
       }},
      {"a store in a loop that threads leave one by one",
       {"threads may enter without the others", "for_ at region_test.cpp:"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         for_(bad ? tid_x() : warp_index() / 4, u32(9), [&](u32) { HERE store(s.f, x); });
         done(s.k);
       }},
      {"a store in a while_ over a Var that differs",
       {"threads may enter without the others", "while_ at region_test.cpp:"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         Var<u32> v(bad ? tid_x() : ctaid_x());
         while_([&] { return v < 64u; },
                [&] {
                  HERE store(s.f, x);
                  v += 64;
                });
         done(s.k);
       }},
      {"a store by a Var that a later line of the loop makes differ",
       {"register tile: all 128 threads", "since a later line of the loop changes the condition"},
       [=](bool bad) {
         Subject s;
         auto x = tile();
         Var<u32> go(0u);
         for_(0, s.p[0], [&](u32 i) {
           if_(go == 0u, [&] { HERE store(s.f, x); });
           go = bad ? tid_x() : i;
         });
         done(s.k);
       }},
      {"a meeting in a while_ that threads leave one by one",
       {"sync_threads: all threads of the CTA", "from the second iteration on"},
       [=](bool bad) {
         Subject s;
         Var<u32> i(0u);
         while_([&] { return i < 9u; },
                [&] {
                  HERE sync_threads();
                  i += s.p[bad ? tid_x() : ctaid_x()] + 1;
                });
         done(s.k);
       }},
      {"a reduction in the warps that a uniform register lets in",
       {"reduce: all 128 threads", "only threads 0 to 63 enter"},
       [=](bool bad) {
         Subject s;
         auto x = load<f32>(s.f, wgmma_layout(64, 64));
         if_(warp_uniform(warp_index()) < (bad ? 2u : 4u),
             [&] { HERE s.f[0] = reduce_all(Reduction::add, x); });
         done(s.k);
       }},
      {"elect in the warp that a loop names",
       {"elect: all lanes of that warp", "threads may enter without the others"},
       [=](bool bad) {
         Subject s;
         for_(0, u32(4), [&](u32 i) {
           if_((bad ? warp_index() : warp_index() / 4) == i, [&] { HERE elect([&] { s.p[i] = 1u; }); });
         });
         done(s.k);
       }},
      {"a meeting of the CTA in half of it",
       {"sync_threads: all threads of the CTA must call this together", "only threads 0 to 63 enter;"},
       [=](bool bad) {
         Subject s;
         if_(tid_x() < (bad ? 64u : 128u), [&] { HERE sync_threads(); });
         done(s.k);
       }},
      {"elect where the first warp does not come",
       {"elect: all lanes of that warp must call this together, but in the if_ at region_test.cpp:",
        "only threads 32 to 63 enter; if_(elect_sync(0xffffffff), ...)"},
       [=](bool bad) {
         Subject s;
         s.k.warpgroups(1, 40, [&](u32) {
           HERE if_(warp_index() == (bad ? 1 : 0), [&] { elect([&] { s.p[0] = 42u; }); });
         });
         done(s.k);
       }},
      {"elect after a guard on lanes",
       {"elect: all lanes of that warp", "only threads 64 to 95, 192 to 223"},
       [=](bool bad) {
         Subject s;
         if_((tid_x() >> 5 & 3) == 2u && s.p[0] == 1u, [&] {
           auto body = [&] { s.p[0] = 42u; };
           HERE bad ? elect(body) : if_(elect_sync(0xffffffff), body);
         });
         done(s.k);
       }},
  });
}

TEST_CASE("a moved-from Var is not used, and two Vars are swapped by their values") {
  auto refused = [](const std::function<void(Subject&)>& body) {
    const std::string text = error_of([&] {
      Subject s;
      body(s);
      done(s.k);
    });
    CHECK_MESSAGE(
        contains(text, "a Var is used after it was moved from: std::move, std::swap and std::exchange"),
        text);
  };
  refused([](Subject& s) {
    Var<u32> a(1u), b(2u);
    std::swap(a, b);
    s.p[0] = a;
  });
  refused([](Subject&) {
    Var<u32> a(1u);
    std::exchange(a, u32(5));
  });
  refused([](Subject& s) {
    Var<RegisterTile<f32>> a(RegisterTile<f32>(1, strided({16, 64}, 4)));
    auto b = std::move(a);
    store(s.f, a.value() + b.value());
  });
  Subject s;
  Var<u32> a(s.p[0]), b(s.p[1]);
  swap(a, b);
  std::vector<Var<u32>> grows;
  for (uint32_t i = 0; i < 9; ++i) grows.emplace_back(u32(i));
  if_(s.p[2] == 1u, [&] { grows.emplace_back(u32(9)); });
  std::reverse(grows.begin(), grows.begin() + 9);
  s.p[0] = a + b + grows[0];
  RegisterTile<f32> x(1, strided({16, 64}, 4));
  const RegisterTile<f32> y = std::move(x);
  store(s.f, x + y);
  done(s.k);
}

TEST_CASE("a host object is reused for one kernel after another") {
  std::optional<u32> row;
  std::vector<u32> registers;
  {
    Subject s;
    row = s.p[0];
    registers.assign(3, *row);
    s.p[1] = *row + registers[2];
    done(s.k);
  }
  Subject s;
  if_(s.p[0] == 1u, [&] {
    row = s.p[1];
    registers.assign(3, *row);
    s.p[1] = *row + registers[2];
  });
  done(s.k);
}

TEST_CASE("the threads before their number is set") {
  check_cases({
      {"threads, when tiles have been loaded",
       {"threads: 64 were requested after operations of a CTA of 128; call threads() before them"},
       [](bool bad) {
         Subject s;
         if (!bad) s.k.threads(128);
         store(s.f, RegisterTile<f32>(1, strided({16, 64}, 4)));
         HERE s.k.threads(bad ? 64 : 128);
         done(s.k);
       }},
      {"threads and roles",
       {"warpgroups: threads(256) was called before, but the roles determine the number of threads"},
       [](bool bad) {
         Subject s;
         if (bad) s.k.threads(256);
         HERE s.k.warpgroups(2, 0, [](u32) {});
         done(s.k);
       }},
      {"a loop that counts down",
       {"for_: the step is -1, but for_ counts up"},
       [](bool bad) {
         Subject s;
         HERE for_(3, s32(bad ? -1 : 9), bad ? -1 : 1, [&](s32 i) { s.p[u32(i)] = 1u; });
         done(s.k);
       }},
      {"the least number by -1",
       {"the quotient of -2147483648 and -1 does not fit in s32"},
       [](bool bad) {
         Subject s;
         HERE s.p[0] = u32(s32(bad ? INT32_MIN : INT32_MAX) / s32(-1));
         done(s.k);
       }},
  });
}

TEST_CASE("values on the host behave like any C++ values") {
  Subject s;
  const u32 x = s.p[0];
  u32 sum = 0;
  for (int i = 0; i < 4; ++i) sum += x * i;
  std::optional<u32> maybe;
  maybe = sum;
  maybe = *maybe + 1;
  std::vector<u32> many;
  for (uint32_t i = 0; i < 20; ++i) many.push_back(*maybe + i);
  std::swap(many[0], many[19]);
  std::reverse(many.begin(), many.end());
  many.erase(many.begin());
  std::map<std::string, Pair> named = {{"a", {1, 2}}};
  named.at("a") = {many[0], many[1]};
  RegisterTile<f32> tile(1, strided({16, 64}, 4));
  for (int i = 0; i < 3; ++i) tile = tile * 2;
  store(s.f, tile);
  if_(x == 3u, [&] {  // also allowed in a branch
    u32 here = named.at("a").first;
    for (int i = 0; i < 4; ++i) here = here + many[static_cast<size_t>(i)];
    std::optional<u32> own = here;
    own = *own * 2;
    auto helper = [&] { own = *own + 1; };  // called in the same body
    helper();
    s.p[1] = *own;
  });
  for_(0, u32(4), [&](u32 i) {
    std::array<u32, 2> pair = {i, x};
    std::swap(pair[0], pair[1]);
    s.p[i] = pair[0];
  });
  std::optional<u32> in_turn;  // one host variable for two branches, each of which reads only what it wrote
  if_(x == 4u, [&] { in_turn = x + 1, s.p[2] = *in_turn; });
  if_(x == 5u, [&] { in_turn = x + 2, s.p[2] = *in_turn; });
  while_([&] { return x == 6u; }, [&] { s.p[3] = x; });
  if_(x == 7u, [&] { many.push_back(u32(9)); });  // this moves the other elements to a larger allocation
  Var<u32> bound(x);
  for_(0, bound, [&](u32 i) { s.p[i] = many[0]; });
  for_(0, s.p[0], [&](u32 i) { s.p[i] = many[0]; });
  done(s.k);
}

TEST_CASE("an operation of a warpgroup in a branch that whole warpgroups take, or that cannot be analysed") {
  {
    Subject other;
    const RegisterTile<f32> x(1, strided({16, 64}, 4));
    if_(other.p[0] == 1u, [&] { store(other.f, x); });
    const RegisterTile<f32> y = load<f32>(other.f, wgmma_layout(64, 64));
    Var<f32> most(reduce_all(Reduction::max, y));  // equal in all threads
    while_([&] { return most > 3.0F; },
           [&] {
             store(other.f, y);
             most -= 1;
             sync_threads();
           });
    for_(0, u32(reduce_all(Reduction::max, reduce_rows(Reduction::max, y))), [&](u32) { sync_threads(); });
    done(other.k);
  }
  Subject s;
  s.k.warpgroups(
      2, 40,
      [&](u32 group) {  // the condition depends on the warpgroup's number, through a Var or through memory
        const RegisterTile<f32> x(1, strided({16, 64}, 4));
        Var<u32> i(ctaid_x() * 2 + group);
        while_([&] { return i < s.p[0]; },
               [&] {
                 sync_warpgroup();
                 elect([&] { s.p[i] = 1u; });
                 i += nctaid_x() * 2;
               });
        Var<u32> own(warp_uniform(group));
        if_(own == 1u, [&] { store(s.f, x); });
        if_(s.p[group] < 3u, [&] { sync_warpgroup(); });
        for_(0, select(group == 0u, s.p[1].value(), u32(4)), [&](u32) { sync_warpgroup(); });
      });
  s.k.warpgroups(2, 40, [&](u32 group) {
    const RegisterTile<f32> x(1, strided({16, 64}, 4));
    if_(group == 1u, [&] { store(s.f + 1024, x); });
    if_(warp_index() / 4 == 0u, [&] { sync_warpgroup(); });
    if_(tid_x() >= 128u, [&] { store(s.f + 2048, x); });
  });
  done(s.k);
}

}  // namespace ptxbuilder::test::region_test
