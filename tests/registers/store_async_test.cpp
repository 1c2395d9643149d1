// Tests CTAs of a cluster that exchange register tiles through each other's shared memory: with a barrier,
// and in the stages of a pipeline. The kernels must be right on every schedule, and their mutants must be
// reported.
//
//   store_async_test [--device=emulator|cuda|auto]
#include "misuse_kit.h"
#include "mutation_kit.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::store_async_test {
namespace {

constexpr int kRows = 64, kCols = 32, kElements = kRows * kCols;

// Returns a number that all types represent, and that differs for neighbouring CTAs, rounds and elements.
double number(int cta, int round, int element) { return (cta * 7 + round * 3 + element) % 13 - 5; }

// Launches `ctas` CTAs, each with the numbers of `rounds` tiles, and compares each CTA's result with the
// tiles of the previous CTA. `in` and `out` are [cta][round][row][col].
Subject subject(const std::string& name, Kernel& k, DType type, int ctas, int rounds) {
  const std::string text = ptx_of(k);
  CHECK(fmt::format("{}", fmt::join(rules_that_find(text), ", ")) == "");
  return Subject(
      name, text, k.signature(), [=](runtime::Device& device, runtime::LoadedKernel& kernel) -> std::string {
        const auto size = static_cast<size_t>(size_of(type));
        std::vector<std::byte> in(static_cast<size_t>(ctas * rounds * kElements) * size), expected(in.size());
        for (int cta = 0; cta < ctas; ++cta)
          for (int i = 0; i < rounds * kElements; ++i) {
            const double v = number(cta, i / kElements, i % kElements);
            write_element(&in[static_cast<size_t>(cta * rounds * kElements + i) * size], type, v);
            const int to = (cta + 1) % ctas;
            write_element(&expected[static_cast<size_t>(to * rounds * kElements + i) * size], type, v);
          }
        const auto from = runtime::Buffer::of(device, in);
        runtime::Buffer out(device, in.size());
        out.fill(0xff);
        kernel.launch({.grid = {static_cast<uint32_t>(ctas)}},
                      {runtime::pointer(from, type), runtime::pointer(out, type)});
        return out.copy_out<std::byte>() == expected ? "right" : "wrong";
      });
}

PeerCta next(int ctas) { return {ClusterAxis::x, (cluster_ctarank() + 1) % ctas}; }

// Each CTA stores its tile to the next CTA of the cluster.
template <class T>
Subject once(int ctas, const RegisterLayout& layout, Swizzle swizzle) {
  Kernel k("once");
  auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
  k.cluster(static_cast<uint32_t>(ctas));
  SharedTile tile = k.shared<T>({kRows, kCols}, swizzle, 1, "received");
  Barriers bar(k, {1}, {"arrived"});
  elect([&] { mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(tile.stage_bytes())); });
  sync_cluster();
  const u32 place = ctaid_x() * kElements;
  store_async(tile[0], load<T>(from + place, layout), next(ctas), bar[0]);
  barrier_wait_cluster(bar[0], 0);
  store(out + place, load<T>(tile[0], layout));
  return subject(fmt::format("once {} of {}, {}", name(T::dtype), layout.describe(), name(swizzle)), k,
                 T::dtype, ctas, 1);
}

// A producer fills the stages of the next CTA, and a consumer writes them out.
Subject stages(int ctas, int rounds) {
  Kernel k("stages");
  auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
  k.cluster(static_cast<uint32_t>(ctas));
  const RegisterLayout layout = strided({kRows, kCols}, 4);
  SharedTile tile = k.shared<f32>({kRows, kCols}, Swizzle::none, 2, "received");
  Pipeline pipe(k, 2, {tile}, 1, ThreadProducers{.axes = ClusterAxis::x, .exchanges = true});
  const u32 place = ctaid_x() * (rounds * kElements);
  k.warpgroups(1, 0, [&, from = from](u32) {
    auto ring = pipe.producer();
    for_(0u, u32(rounds), [&](u32 round) {
      const RegisterTile<f32> x = load<f32>(from + (place + round * kElements), layout);
      const Stage s = ring.acquire();
      store_async(tile[s], x, next(ctas));
      ring.commit(s);
    });
  });
  k.warpgroups(1, 0, [&, out = out](u32) {
    auto ring = pipe.consumer(Peeks::no, u32(rounds));
    for_(0u, u32(rounds), [&](u32 round) {
      const Stage s = ring.wait();
      store(out + (place + round * kElements), load<f32>(tile[s], layout));
      bar_warp_sync(0xffffffff);
      ring.release(s);
    });
  });
  return subject(fmt::format("{} CTAs, {} rounds", ctas, rounds), k, DType::f32, ctas, rounds);
}

// Checks that each mutant has one of its faults, or gives wrong results, on one of 20 schedules.
void check_wrong(const Subject& subject, const std::vector<Mutant>& mutants) {
  for (const Mutant& m : mutants) {
    const std::string text = mutated(subject.text(), m);
    std::string report = "right";
    std::optional<Fault> fault;
    for (uint64_t seed = 0; seed < 20 && report == "right"; ++seed)
      fault = subject.run(text, seed, 1, report);
    const bool named =
        fault ? std::find(m.causes.begin(), m.causes.end(), *fault) != m.causes.end() : m.causes.empty();
    CHECK_MESSAGE((report != "right" && named), m.what << ": " << report);
    MESSAGE(m.what << ": " << report.substr(0, report.find('\n')));
  }
}

}  // namespace

TEST_CASE("tiles of all widths of accesses arrive in the next CTA") {
  for (int ctas : {2, 4}) {
    check_right(once<f32>(ctas, strided({kRows, kCols}, 4), Swizzle::none), 4);
    check_right(once<f32>(ctas, strided({kRows, kCols}, 1), Swizzle::b128), 4);
    check_right(once<f32>(ctas, wgmma_layout(kRows, kCols), Swizzle::b64), 4);
    check_right(once<bf16>(ctas, wgmma_layout(kRows, kCols), Swizzle::b64), 4);
    check_right(once<f16>(ctas, strided({kRows, kCols}, 8), Swizzle::none), 4);
  }
}

TEST_CASE("CTAs fill the stages of a pipeline of the next CTA") {
  for (int rounds : {1, 2, 5}) check_right(stages(2, rounds), 10);
}

TEST_CASE("emulator: mutants of an exchange") {
  const char *const stores = "st.async", *const place = "mapa";
  check_wrong(
      once<f32>(2, strided({kRows, kCols}, 4), Swizzle::none),
      {{"16 B too many expected",
        "mbarrier.arrive.expect_tx",
        0,
        add_to(2, 16),
        {Fault::tx_count, Fault::deadlock}},
       {"16 B too few expected",
        "mbarrier.arrive.expect_tx",
        0,
        add_to(2, -16),
        {Fault::tx_count, Fault::race}},
       {"a store is left out", stores, 0, drop, {Fault::tx_count, Fault::deadlock}},
       {"a store goes to the CTA itself", place, 1, set_operand(2, 0), {Fault::operand}},
       {"the bytes complete in the CTA with rank 0", place, 0, set_operand(2, 0), {Fault::operand}},
       {"it reads without waiting", "mbarrier.try_wait", 0, do_not_wait, {Fault::race, Fault::uninitialised}},
       {"the wait does not acquire",
        "mbarrier.try_wait.parity.acquire.cluster",
        0,
        becomes("mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64"),
        {Fault::race}},
       {"the CTAs do not meet",
        "barrier.cluster",
        0,
        drop,
        {Fault::mbarrier_use, Fault::mbarrier_init, Fault::race, Fault::deadlock},
        2}});
}

TEST_CASE("emulator: mutants of an exchange in stages") {
  const std::vector<Fault> out_of_step = {Fault::race,          Fault::deadlock,      Fault::tx_count,
                                          Fault::arrival_count, Fault::phase_skipped, Fault::early_exit};
  check_wrong(stages(2, 7), {{"16 B too many expected", "mbarrier.expect_tx", 0, add_to(1, 16), out_of_step},
                             {"no bytes are expected", "mbarrier.expect_tx", 0, drop, out_of_step},
                             {"the producer does not wait", "mbarrier.try_wait", 0, do_not_wait, out_of_step},
                             {"the consumer does not wait",
                              "mbarrier.try_wait",
                              1,
                              do_not_wait,
                              {Fault::race, Fault::uninitialised}},
                             {"the release does not release",
                              "mbarrier.arrive.release.cluster",
                              0,
                              becomes("mbarrier.arrive.relaxed.cluster.shared::cluster.b64"),
                              {Fault::race}}});
}

TEST_CASE("misuse of an exchange") {
  const auto with_ring = [](const ThreadProducers& producers, ClusterAxis axis, uint32_t ctas = 2) {
    Kernel k("k");
    k.cluster(ctas, 2);
    SharedTile tile = k.shared<f32>({kRows, kCols}, Swizzle::none, 2);
    Pipeline pipe(k, 2, {tile}, 1, producers);
    k.warpgroups(1, 0, [&](u32) {
      auto ring = pipe.producer();
      const Stage s = ring.acquire();
      HERE store_async(tile[s], RegisterTile<f32>(f32(1), strided({kRows, kCols}, 4)), PeerCta{axis, 0});
      ring.commit(s);
    });
    k.warpgroups(1, 0, [&](u32) {
      auto ring = pipe.consumer();
      ring.release(ring.wait());
    });
    done(k);
  };
  const auto alone = [](const RegisterLayout& layout, bool barrier, uint32_t ctas = 2) {
    Kernel k("k");
    k.cluster(ctas);
    SharedTile tile = k.shared<bf16>({kRows, kCols});
    Barriers bar(k, {1});
    sync_cluster();
    const PeerCta peer{ClusterAxis::x, 1};
    const RegisterTile<bf16> x = astype<bf16>(RegisterTile<f32>(f32(1), layout));
    if (barrier) {
      HERE store_async(tile[0], x, peer, bar[0]);
    } else {
      HERE store_async(tile[0], x, peer);
    }
    done(k);
  };
  const RegisterLayout pairs = strided({kRows, kCols}, 2);
  check_cases({
      {"no barrier",
       {"store_async: the view has no barrier to complete on: take it from a pipeline's stage"},
       [&](bool bad) { alone(pairs, !bad); }},
      {"accesses below 4 bytes",
       {"store_async: ", " of bf16 in the view of a bf16 64x32 tile",
        "has accesses of 2 B, but st.async stores at least 4"},
       [&](bool bad) {
         alone(bad ? strided({kRows, kCols}, 1) : pairs, true);
       }},
      {"a kernel without clusters",
       {"store_async: the kernel has no cluster; st.async needs one, such as that of k.cluster(2)"},
       [&](bool bad) { alone(pairs, true, bad ? 1 : 2); }},
      {"a pipeline without exchanges",
       {"store_async: the destination is a stage that CTAs do not exchange; make the pipeline with "
        "ThreadProducers{.axes = ClusterAxis::x, .exchanges = true}"},
       [&](bool bad) { with_ring({.axes = ClusterAxis::x, .exchanges = !bad}, ClusterAxis::x); }},
      {"a pipeline of three CTAs",
       {"store_async: 3 CTAs along x exchange the stages of a pipeline, but at most two can"},
       [&](bool bad) {
         with_ring({.axes = ClusterAxis::x, .exchanges = true}, ClusterAxis::x, bad ? 3 : 2);
       }},
      {"a pipeline along another axis",
       {"store_async: the destination is a stage that CTAs release along other axes; make the pipeline with "
        "ThreadProducers{.axes = ClusterAxis::y"},
       [&](bool bad) {
         with_ring({.axes = ClusterAxis::x, .exchanges = true}, bad ? ClusterAxis::y : ClusterAxis::x);
       }},
  });
}

}  // namespace ptxbuilder::test::store_async_test
