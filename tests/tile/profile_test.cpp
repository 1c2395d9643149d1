// Tests regions and marks: the records of a profiled kernel on a device, and the code of a kernel that is not
// profiled.
//
//   profile_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/profile.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/tile/region_chain.h"
#include "runtime/perfetto.h"

namespace ptxbuilder::test::profile_test {
namespace {

constexpr uint32_t kRounds = 5, kCtas = 3;

// One role has one thread, which enters two nested regions in each round. In another role, each warp enters
// one region. Without `regions`, the kernel computes the same results.
Kernel worker(bool regions) {
  Kernel k("worker");
  auto [to] = k.params<gptr<u32>>("out");
  const gptr<u32> out = to;
  auto in = [&](std::string_view name, const std::function<void()>& body) {
    regions ? region(name, body) : body();
  };
  k.warpgroups("first", 1, 40, [&](u32) {
    elect([&] {
      for_(0, u32(kRounds), [&](u32 round) {
        in("round", [&] {
          if (regions) mark("number", round);
          in("add", [&] { out[ctaid_x()] = out[ctaid_x()] + round; });
        });
      });
    });
  });
  k.warpgroups(2, 232, [&](u32) {
    if (regions) name_role("others");
    u32 i = regions ? region("index", [&] { return tid_x() + 100; }) : tid_x() + 100;
    out[kCtas + ctaid_x() * 384 + tid_x()] = i;
    if (regions) mark("negative", s32(-7));
    if (regions) mark("half", f32(0.5f));
  });
  return k;
}

Kernel profiled(const std::function<Kernel()>& make, uint32_t records = 64) {
  const ProfileScope scope(records);
  return make();
}

runtime::Profile run(Running& running, Kernel k, std::vector<uint32_t>& out) {
  Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  runtime::Buffer memory(*running.device, 4 * out.size());
  memory.fill(0);
  runtime::ProfileBuffer profile(*running.device, compiled.signature, {kCtas});
  for (int launch = 0; launch < 2; ++launch)  // the last launch is read
    kernel.launch({.grid = {kCtas}}, {runtime::pointer(memory, DType::u32), profile});
  running.device->synchronize();
  out = memory.copy_out<uint32_t>();
  return profile.read();
}

// Returns a kernel's PTX without the lines of its source.
std::string code_of(Kernel& k) {
  std::string kept;
  std::istringstream lines(ptx_of(k));
  for (std::string line; std::getline(lines, line);)
    if (!contains(line, ".loc") && !contains(line, ".file")) kept += line + "\n";
  return kept;
}

// Counts how often each region name occurs at each depth in the tracks of a role.
std::map<std::string, size_t> regions_of(const runtime::Profile& profile, const std::string& role) {
  std::map<std::string, size_t> found;
  for (const auto& track : profile.tracks)
    if (profile.roles[static_cast<size_t>(track.role)] == role)
      for (const auto& region : track.regions)
        ++found[fmt::format("{} {}", region.depth, profile.names[region.name])];
  return found;
}

}  // namespace

TEST_CASE("a kernel that is not profiled has no code of its regions") {
  Kernel with = worker(true);
  Kernel without = worker(false);
  CHECK(code_of(with) == code_of(without));
  CHECK_FALSE(with.signature().profile);
  CHECK(with.signature().parameters.size() == 1);
  Kernel on = profiled([] { return worker(true); });
  CHECK(contains(ptx_of(on), "%globaltimer"));
  CHECK(on.signature().parameters.back().name == "profile");
  CHECK(signature_from_json(to_json(on.signature()), "worker.json") == on.signature());
}

TEST_CASE("regions nest, marks have values, and roles have names") {
  Running running;
  std::vector<uint32_t> out(kCtas * 385);
  const runtime::Profile profile = run(running, profiled([] { return worker(true); }), out);
  for (uint32_t cta = 0; cta < kCtas; ++cta) CHECK(out[cta] == 2 * (kRounds * (kRounds - 1) / 2));
  CHECK(profile.lost == 0);
  CHECK(profile.unfinished == 0);
  CHECK(profile.roles == std::vector<std::string>{"first", "others"});
  CHECK(profile.tracks.size() == kCtas * 12);
  CHECK(regions_of(profile, "first") == std::map<std::string, size_t>{{"0 first", kCtas * 4},
                                                                      {"1 round", kCtas * kRounds},
                                                                      {"2 add", kCtas * kRounds}});
  CHECK(regions_of(profile, "others") ==
        std::map<std::string, size_t>{{"0 others", kCtas * 8}, {"1 index", kCtas * 8}});
  CHECK(profile.event_cost >= 0);  // the emulator's clock is coarse
  for (const auto& track : profile.tracks) {
    std::vector<double> values;
    for (const auto& m : track.marks) values.push_back(m.value);
    if (track.role == 1) CHECK(values == std::vector<double>{-7, 0.5});
    if (track.role == 0 && track.warp == 0) CHECK(values == std::vector<double>{0, 1, 2, 3, 4});
    CHECK(track.begin >= 0);
    CHECK(track.end <= profile.time);
    double end = track.begin;
    for (const auto& region : track.regions) {
      CHECK(region.ended);
      CHECK(region.begin >= track.begin);
      CHECK(region.end <= track.end);
      CHECK(region.net <=
            region.end - region.begin + 1e-6);  // tolerates the rounding error from subtracting the start
      if (region.depth == 1) CHECK(region.begin >= end);
      if (region.depth == 1) end = region.end;
    }
  }
  const std::string summary = profile.summary();
  for (const char* part :
       {"profile of worker", "an event costs", "first", "  round", "  round/add", "others"})
    CHECK(contains(summary, part));
  CHECK_FALSE(contains(summary, "lost"));
  CHECK(contains(runtime::perfetto_trace(profile), "CTA 2 warp 11, others"));
}

TEST_CASE("a span begins in one role and ends in another") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto handed_over = [] {
    Kernel k("handed_over");
    k.params<gptr<u32>>("out");
    const NamedBarrier both = k.named_barrier(256);
    k.warpgroups("from", 1, 40, [&](u32) {
      for_(0, u32(4), [&](u32 i) { begin_span("hand", i); });
      both.sync();
    });
    k.warpgroups("to", 1, 232, [&](u32) {
      both.sync();
      for_(0, u32(4), [&](u32 i) { end_span("hand", i); });
    });
    return k;
  };
  const runtime::Profile profile = run(running, profiled(handed_over), out);
  REQUIRE(profile.spans.size() == kCtas * 4);
  std::set<std::pair<uint32_t, uint32_t>> numbers;
  for (const auto& span : profile.spans) {
    CHECK(span.ended);
    CHECK(span.begin <= span.end);
    CHECK(profile.names[span.name] == "hand");
    numbers.emplace(span.cta, span.number);
  }
  CHECK(numbers.size() == kCtas * 4);
  CHECK(contains(profile.summary(), runtime::Profile::kSpans));
}

TEST_CASE("instructions that wait or send are regions if requested") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto waits = [] {
    Kernel k("waits");
    k.params<gptr<u32>>("out");
    region("mine", [] { sync_threads(); });
    return k;
  };
  Kernel k = [&] {
    const ProfileScope scope(64, ProfileScope::Detail::instructions);
    return waits();
  }();
  const runtime::Profile profile = run(running, std::move(k), out);
  for (const auto& track : profile.tracks) {
    REQUIRE(track.regions.size() == 2);
    CHECK(profile.names[track.regions[0].name] == "mine");
    CHECK(profile.names[track.regions[1].name] == "bar.sync");
    CHECK(track.regions[1].depth == 1);
  }
  CHECK(run(running, profiled(waits), out).tracks[0].regions.size() == 1);
}

TEST_CASE("a body has one record, and events with no code between them share a time") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto grouped = [] {
    Kernel k("grouped");
    k.params<gptr<u32>>("out");
    for (const char* name : {"one", "two", "three"}) region(name, [] { sync_threads(); });
    mark("value", s32(-3));  // at the time at which the region ended
    for_(0, u32(2), [](u32 i) {
      begin_span("span", i);
      sync_threads();
      end_span("span", i);
    });
    // Each of these lanes records separately from its warp.
    if_(tid_x() % 32 >= 30,
        [] { if_(tid_x() % 2 == 0, [] { region("apart", [] { mark("lane", tid_x()); }); }); });
    return k;
  };
  Kernel kernel = profiled(grouped);
  kernel.finish();
  const ProfileFormat format = *kernel.signature().profile;
  constexpr std::array kKinds = {"begin", "end", "span_begin", "span_end", "u32", "s32", "f32"};
  std::string sites;
  for (const ProfileFormat::Site& site : format.sites) {
    for (const ProfileFormat::Event& e : site) {
      sites += fmt::format("{} {} @{}", kKinds[static_cast<size_t>(e.kind)], format.names[e.name], e.clock);
      sites += ProfileFormat::has_value(e.kind) ? fmt::format(" ={}, ", e.value) : ", ";
    }
    sites.back() = '\n';
  }
  CHECK(sites ==
        "begin one @0, end one @1, begin two @1, end two @2, begin three @2, end three @3, s32 value @3 =4,\n"
        "begin apart @0,\n"
        "u32 lane @0 =1,\n"
        "end apart @0,\n"
        "span_begin span @0 =1, span_end span @2 =3,\n");
  const runtime::Profile profile = run(running, std::move(kernel), out);
  CHECK(profile.lost == 0);
  REQUIRE(profile.tracks.size() == kCtas * 4);
  for (const auto& track : profile.tracks) {
    std::vector<std::string> regions;
    for (const auto& region : track.regions) {
      CHECK(region.ended);
      regions.push_back(profile.names[region.name]);
    }
    CHECK(regions == std::vector<std::string>{"one", "two", "three", "apart"});
    CHECK(track.regions[1].begin == track.regions[0].end);
    CHECK(track.regions[2].begin == track.regions[1].end);
    REQUIRE(track.marks.size() == 2);
    CHECK(track.marks[0].value == -3);
    CHECK(track.marks[0].time == track.regions[2].end);
    CHECK(track.marks[1].value == track.warp * 32 + 30);
  }
  // The warps of a CTA have the same spans on the emulator. On a GPU, the spans may differ, because the times
  // of the warps differ by more than the duration of such spans.
  CHECK(profile.spans.size() >= kCtas * 2);
  if (device_name == "emulator") CHECK(profile.spans.size() == kCtas * 2);
  for (const auto& span : profile.spans) CHECK(span.ended);
}

TEST_CASE("regions of a chain take one clock each, and begin where the one before them ends") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto chained = [] {
    Kernel k("chained");
    k.params<gptr<u32>>("out");
    sync_threads();
    RegionChain chain;
    for_(0, u32(5), [&](u32) {
      const u32 x = chain.region("one", [] {
        sync_threads();
        return u32(1);
      });
      sync_threads();  // counts for the second region
      chain.region("two", [&] { mark("x", x); });
    });
    return k;
  };
  Kernel kernel = profiled(chained);
  kernel.finish();
  const ProfileFormat format = *kernel.signature().profile;
  REQUIRE(format.sites.size() == 2);
  CHECK(format.sites[0].size() == 1);  // the time at which the chain begins
  const ProfileFormat::Site& step = format.sites[1];
  REQUIRE(step.size() == 5);
  CHECK(step[0].clock == ProfileFormat::kBefore);
  CHECK(step[1].clock == 0);
  CHECK(step[2].clock == ProfileFormat::kBefore);
  CHECK(step[3].clock == 1);  // the mark has its own time
  CHECK(step[4].clock == 1);
  const runtime::Profile profile = run(running, std::move(kernel), out);
  CHECK(profile.lost == 0);
  REQUIRE(profile.tracks.size() == kCtas * 4);
  for (const auto& track : profile.tracks) {
    REQUIRE(track.regions.size() == 10);
    REQUIRE(track.marks.size() == 5);
    CHECK(track.regions[0].begin >= track.begin);
    for (size_t i = 0; i < 10; ++i) {
      const auto& region = track.regions[i];
      CHECK(profile.names[region.name] == (i % 2 ? "two" : "one"));
      CHECK(region.ended);
      CHECK(region.end >= region.begin);
      if (i > 0) CHECK(region.begin == track.regions[i - 1].end);
    }
  }
}

TEST_CASE("a wait is a region of a wait_region if it waits, and the regions around it are whole") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto make = [] {
    Kernel k("waits");
    auto [to] = k.params<gptr<u32>>("out");
    const gptr<u32> out = to;
    const Barriers barriers(k, {32, 32}, {"early", "late"});
    sync_threads();
    if_(tid_x() >= 96, [&] { mbarrier_arrive(barriers[0]); });
    sync_threads();
    if_(tid_x() >= 96, [&] {
      for_(0, u32(2000), [&](u32 i) { if_(tid_x() == 96, [&] { out[ctaid_x()] = i; }); });
      mbarrier_arrive(barriers[1]);
    });
    region("both", [&] {
      wait_region("early", [&] { barrier_wait(barriers[0], 0); });
      const u32 parity = wait_region("late", [&] {
        barrier_wait(barriers[1], 0);
        return u32(0);
      });
      mark("parity", parity);
    });
    return k;
  };
  const runtime::Profile profile = run(running, profiled(make), out);
  CHECK(profile.lost == 0);
  REQUIRE(profile.tracks.size() == kCtas * 4);
  for (const auto& track : profile.tracks) {
    CAPTURE(track.warp);
    const bool waited = track.warp < 3;
    REQUIRE(track.regions.size() == (waited ? 2 : 1));
    CHECK(profile.names[track.regions[0].name] == "both");
    CHECK(track.regions[0].ended);
    REQUIRE(track.marks.size() == 1);
    CHECK(track.marks[0].time <= track.regions[0].end);
    if (!waited) continue;
    const auto& wait = track.regions[1];
    CHECK(profile.names[wait.name] == "late");
    CHECK(wait.depth == 1);
    CHECK(wait.begin >= track.regions[0].begin);
    CHECK(wait.end >= wait.begin);
    CHECK(wait.end <= track.marks[0].time);
  }
}

TEST_CASE("a wait_region without a wait is refused, profiled or not, and costs nothing where it is not") {
  const auto with = [](bool named) {
    Kernel k("waits");
    const Barriers barriers(k, {1}, {"full"});
    sync_threads();
    const auto wait = [&] { barrier_wait(barriers[0], 0); };
    named ? wait_region("full", wait) : wait();
    return k;
  };
  Kernel named = with(true), plain = with(false);
  CHECK(code_of(named) == code_of(plain));
  const auto nothing = [] {
    Kernel k("nothing");
    wait_region("sync", [] { sync_threads(); });
  };
  const std::string rule = "wait_region: 'sync' does not wait for an mbarrier or a counter; use region()";
  CHECK(contains(error_of(nothing), rule));
  const ProfileScope scope;
  CHECK(contains(error_of(nothing), rule));
}

TEST_CASE("a record of several units that begins in a full buffer's last place is whole") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto wide = [] {
    Kernel k("wide");
    k.params<gptr<u32>>("out");
    for_(0, u32(20), [&](u32 i) {
      for (int n = 0; n < 4; ++n) mark("number", i * 4 + u32(static_cast<uint32_t>(n))), sync_threads();
    });
    return k;
  };
  // Each step has a record of three units, because 8 clocks and values exceed the 7 words of two units.
  const runtime::Profile profile = run(running, profiled(wide, 34), out);
  CHECK(profile.lost == kCtas * 4 * (60 - 36));
  for (const auto& track : profile.tracks) {
    REQUIRE(track.marks.size() == 12 * 4);
    for (size_t i = 0; i < track.marks.size(); ++i) CHECK(track.marks[i].value == i);
  }
}

TEST_CASE("a full buffer counts lost records, and the kernel continues") {
  Running running;
  std::vector<uint32_t> out(kCtas);
  const auto many = [] {
    Kernel k("many");
    auto [to] = k.params<gptr<u32>>("out");
    const gptr<u32> out = to;
    for_(0, u32(50), [&](u32) {
      region("again", [&] { if_(tid_x() == 0, [&] { out[ctaid_x()] = out[ctaid_x()] + 1; }); });
    });
    return k;
  };
  const runtime::Profile profile = run(running, profiled(many, 33), out);
  CHECK(out == std::vector<uint32_t>(kCtas, 100));
  CHECK(profile.roles.empty());
  CHECK(profile.recorded == kCtas * 4 * 2 * 33);
  CHECK(profile.lost == kCtas * 4 * (50 - 33));
  CHECK(profile.wanted == 100);  // twice what a warp had
  for (const auto& track : profile.tracks) CHECK(track.regions.size() == 33);
  CHECK(contains(profile.summary(), "204 records of events are lost: a warp has room for 33"));
}

TEST_CASE("what regions refuse") {
  const std::string at = "profile_test.cpp";
  for (const bool on : {false, true}) {
    std::optional<ProfileScope> scope;
    if (on) scope.emplace(64);
    Kernel k("wrong");
    auto [out] = k.params<gptr<u32>>("out");
    CHECK(contains(error_of([&] { region("", [] {}); }), "region: the name is empty (" + at));
    CHECK(contains(error_of([&] { mark("", u32(1)); }), "mark: the name is empty (" + at));
    CHECK(contains(error_of([&] { name_role("x"); }), "name_role: call it in a role (" + at));
    CHECK(contains(error_of([&] { region("left", [] { throw Error("gone"); }); }), "gone"));
    CHECK(contains(error_of([&] { k.finish(); }),
                   "an exception from the body of this region left it unfinished: gone"));
  }
  CHECK(contains(error_of([] { ProfileScope scope(31); }),
                 "room for 31 records of a warp was requested, but the number must be 32 to 1048576 (" + at));
  CHECK(contains(error_of([] { ProfileScope scope((1 << 20) + 1); }), "must be 32 to 1048576"));
  const ProfileScope scope;
  CHECK(contains(error_of([] {
                   Kernel k("taken");
                   k.params<gptr<u32>>("profile");
                 }),
                 "parameter 'profile': the library adds a parameter of this name, so choose another"));
}

TEST_CASE("a kernel without parameters can be profiled, and one that is not is refused a buffer") {
  Running running;
  Kernel k = profiled([] {
    Kernel none("none");
    region("nothing", [] { sync_threads(); });
    return none;
  });
  Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  runtime::ProfileBuffer buffer(*running.device, compiled.signature, {1});
  kernel.launch({.grid = {1}}, {buffer});
  running.device->synchronize();
  CHECK(buffer.read().tracks.size() == 4);
  Kernel off("off");
  CHECK(contains(error_of([&] { runtime::ProfileBuffer(*running.device, off.signature(), {1}); }),
                 "the kernel 'off' does not record a profile; build it while a ProfileScope is open"));
  CHECK(contains(error_of([&] { runtime::ProfileBuffer(*running.device, compiled.signature, {1 << 26}); }),
                 "use fewer records"));
}

}  // namespace ptxbuilder::test::profile_test
