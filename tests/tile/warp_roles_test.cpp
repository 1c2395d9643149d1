// Tests warps of one warpgroup with different roles. They must be right on every schedule, their mutants must
// be reported, and operations that need a whole warpgroup must be refused.
//
//   warp_roles_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/warp_roles.h"

#include "misuse_kit.h"
#include "mutation_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::test::warp_roles_test {
namespace {

constexpr int kRows = 16, kCols = 32, kElements = kRows * kCols, kThreads = 128;

// One warp loads A, another loads B, and two warps write the numbers of their threads to `who`. A warpgroup
// adds A and B: out = a + b for `rounds` tiles.
Kernel sums(int rounds) {
  Kernel k("sums");
  auto [a, b, out, who] = k.params<gptr<f32>, gptr<f32>, gptr<f32>, gptr<u32>>("a", "b", "out", "who");
  SharedTile sa = k.shared<f32>({kRows, kCols}, Swizzle::none, 2, "a"),
             sb = k.shared<f32>({kRows, kCols}, Swizzle::none, 3, "b");
  Pipeline pa(k, 2, {sa}, 1), pb(k, 3, {sb}, 1);
  NamedBarrier pair = k.named_barrier(64);
  const auto loads = [&](Pipeline& pipe, const SharedTile& tile, gptr<f32> from) {
    return [&, from](u32) {
      elect([&] {
        auto ring = pipe.producer();
        for_(0u, u32(rounds), [&](u32 i) { bulk_load(tile[ring.acquire()], from, i * kElements); });
      });
    };
  };
  k.warpgroups(1, 40, [&, a = a, b = b, who = who](u32) {
    auto words = k.shared<u32>({1, 64}, Swizzle::none, 1, "words");
    warp_roles({{"load a", 1, loads(pa, sa, a)},
                {"load b", 1, loads(pb, sb, b)},
                {"write", 2, [&](u32 warp) {
                   const u32 i = warp * 32 + laneid();
                   sptr<u32> word(words[0].address());
                   word[i] = warp_index() * 100 + i;
                   pair.sync();
                   who[i] = word[63 - i];
                   elect([&] { who[64u + warp] = warp_index(); });
                 }}});
  });
  k.warpgroups(1, 0, [&, out = out](u32) {
    auto ra = pa.consumer(), rb = pb.consumer();
    const RegisterLayout layout = strided({kRows, kCols}, 4);
    for_(0u, u32(rounds), [&](u32 i) {
      const Stage s = ra.wait(), t = rb.wait();
      store(out + i * kElements, load<f32>(sa[s], layout) + load<f32>(sb[t], layout));
      bar_warp_sync(0xffffffff);
      ra.release(s);
      rb.release(t);
    });
  });
  return k;
}

Subject subject(int rounds) {
  Kernel k = sums(rounds);
  const std::string text = ptx_of(k);
  CHECK(fmt::format("{}", fmt::join(rules_that_find(text), ", ")) == "");
  return Subject(
      "sums", text, k.signature(),
      [=](runtime::Device& device, runtime::LoadedKernel& kernel) -> std::string {
        std::vector<float> a(static_cast<size_t>(rounds) * kElements), b(a.size()), expected(a.size());
        for (size_t i = 0; i < a.size(); ++i)
          a[i] = float(i % 101), b[i] = float(i * 7 % 89), expected[i] = a[i] + b[i];
        std::vector<uint32_t> words;
        for (uint32_t i = 0; i < 64; ++i) words.push_back((63 - i < 32 ? 2 : 3) * 100 + 63 - i);
        words.push_back(2);  // elect() chooses a thread of the first of the two warps
        words.push_back(0xffffffff);
        const auto da = runtime::Buffer::of(device, a), db = runtime::Buffer::of(device, b);
        runtime::Buffer out(device, 4 * a.size()), who(device, 4 * words.size());
        out.fill(0xff), who.fill(0xff);
        kernel.launch({.grid = {1}}, {runtime::pointer(da, DType::f32), runtime::pointer(db, DType::f32),
                                      runtime::pointer(out, DType::f32), runtime::pointer(who, DType::u32)});
        if (who.copy_out<uint32_t>() != words) return "wrong words";
        return out.copy_out<float>() == expected ? "right" : "wrong sums";
      });
}

}  // namespace

TEST_CASE("warps of a warpgroup load, count and meet, on every schedule") { check_right(subject(5), 40); }

TEST_CASE("emulator: mutants of warp roles") {
  const Subject of_five = subject(5);
  // The comparisons of the warp's number select a role. These comparisons belong to the warp roles.
  const std::vector<Mutant> mutants = {
      {"one warp meets as if it were two", "bar.sync", 1, set_operand(1, 32), {}},
      {"the pair does not meet", "bar.sync", 1, drop, {}},
      {"all warps but two wait too", "bar.sync", 1, set_operand(1, 96), {}},
      {"the bytes of a are those of b and a", "mbarrier.arrive.expect_tx", 0, add_to(2, 16), {}},
  };
  for (const Mutant& m : mutants) {
    const std::string text = mutated(of_five.text(), m);
    std::string report = "right";
    for (uint64_t seed = 0; seed < 20 && report == "right"; ++seed) of_five.run(text, seed, 1, report);
    CHECK_MESSAGE(report != "right", m.what);
    MESSAGE(m.what << ": " << report.substr(0, report.find('\n')));
  }
}

TEST_CASE("warp roles of a CTA without roles, and warps without work") {
  Kernel k("cta");
  auto [out] = k.params<gptr<u32>>("out");
  k.threads(160);
  warp_roles({{"first", 1, [&, out = out](u32) { out[tid_x()] = 1; }},
              {"others", 3, [&, out = out](u32 warp) { out[tid_x()] = warp + 10; }}});
  const Subject of_cta("cta", ptx_of(k), k.signature(),
                       [](runtime::Device& device, runtime::LoadedKernel& kernel) {
                         runtime::Buffer out(device, 4 * 160);
                         out.fill(0xff);
                         kernel.launch({.grid = {1}}, {runtime::pointer(out, DType::u32)});
                         const std::vector<uint32_t> got = out.copy_out<uint32_t>();
                         for (uint32_t i = 0; i < 160; ++i)
                           if (got[i] != (i < 32 ? 1 : i < 128 ? i / 32 - 1 + 10 : 0xffffffff))
                             return std::string("wrong");
                         return std::string("right");
                       });
  std::string report;
  of_cta.run(of_cta.text(), 0, 5, report);
  CHECK(report == "right");
}

TEST_CASE("misuse of warp roles") {
  // Returns a kernel in which the first warps of a role, or all four, run `body`.
  const auto in_warps = [](int warps, const auto& body) {
    Kernel k("k");
    SharedTile tile = k.shared<f32>({64, 32});
    k.warpgroups(1, 0, [&](u32) { warp_roles({{"some", warps, [&](u32) { body(tile[0]); }}}); });
    done(k);
  };
  const auto simple = [](int first, int second, bool nested) {
    Kernel k("k");
    k.warpgroups(1, 0, [&](u32) {
      HERE warp_roles({{"first", first,
                        [&](u32) {
                          if (nested) warp_roles({{"inner", 1, [](u32) {}}}, marked);
                        }},
                       {"second", second, [](u32) {}}});
    });
    done(k);
  };
  const auto needs_group = [&](const char* what, const char* phrase, auto body) {
    return Case{
        what, {phrase, "all 128 threads of a warpgroup"}, [=](bool bad) { in_warps(bad ? 1 : 4, body); }};
  };
  check_cases({
      {"more warps than the role has",
       {"warp_roles: the roles have 5 warps in total, but the role that is divided has only 4"},
       [&](bool bad) { simple(bad ? 4 : 3, 1, false); }},
      {"no warps",
       {"warp_roles: \"second\" has 0 warps, but must have at least one"},
       [&](bool bad) { simple(1, bad ? 0 : 1, false); }},
      {"a warp role in a warp role",
       {"warp_roles: it cannot be called inside a warp role"},
       [&](bool bad) { simple(1, 1, bad); }},
      needs_group("wgmma in a warp", "wgmma_fence: ", [](const TileView&) { HERE wgmma_fence(); }),
      needs_group("setmaxnreg in a warp",
                  "setmaxnreg_dec: ", [](const TileView&) { HERE setmaxnreg_dec(40); }),
      needs_group("a register tile in a warp",
                  "register tile: ", [](const TileView& tile) { HERE load<f32>(tile); }),
      {"a pipeline's consumer in a warp",
       {"wait: all 128 threads of a warpgroup"},
       [](bool bad) {
         Kernel k("k");
         auto [from] = k.params<gptr<f32>>("from");
         SharedTile tile = k.shared<f32>({64, 32}, Swizzle::none, 2);
         Pipeline pipe(k, 2, {tile}, 1);
         k.warpgroups(1, 0, [&, from = from](u32) {
           elect([&] { bulk_load(tile[pipe.producer().acquire()], from, 0); });
         });
         k.warpgroups(1, 0, [&](u32) {
           warp_roles({{"some", bad ? 1 : 4, [&](u32) {
                          auto ring = pipe.consumer();
                          HERE const Stage s = ring.wait();
                          ring.release(s);
                        }}});
         });
         done(k);
       }},
      {"threads that a CTA gets later",
       {"threads: 256 were requested after operations of a CTA of 128"},
       [](bool bad) {
         Kernel k("k");
         if (!bad) k.threads(256);
         warp_roles({{"some", 1, [](u32) {}}});
         HERE if (bad) k.threads(256);
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::warp_roles_test
