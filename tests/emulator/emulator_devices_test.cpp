// Tests several devices with one address space, whose launches run at once: the operations that order their
// kernels, on many schedules, and the reports if one is left out.
#include <array>
#include <optional>

#include "emulator_kit.h"
#include "plants_kit.h"

namespace ptxbuilder::runtime::emulator_devices_test {
namespace {

// Returns a kernel around `body`. %rd0 is the address of this device's memory, and %rd1 that of the other's,
// each of 256 bytes, with a flag after 128 bytes. %p0 is "thread 0".
std::string kernel(const std::string& body) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 own, .param .u64 peer) {{
.shared .align 128 .b8 data[128];
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<8>;
ld.param.u64 %rd0, [own]; ld.param.u64 %rd1, [peer];
mov.u32 %r0, %tid.x; mov.u32 %r2, data; setp.eq.u32 %p0, %r0, 0;
{}
ret;
}}
)",
                     body);
}

std::string poll(const std::string& load) {
  return "@!%p0 bra D;\nW: " + load + " %r5, [%rd0+128];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\nD:\n";
}

// Two devices with a buffer each, which can access each other's memory.
struct Pair {
  explicit Pair(uint64_t seed, bool reach = true) {
    EmulatorOptions options;
    options.seed = seed;
    devices = open_emulators(2, options);
    for (size_t d = 0; d < 2; ++d) {
      memory[d] = devices[d]->allocate(256);
      devices[d]->fill(memory[d], 0, 256);
      if (reach) devices[d]->reach(*devices[1 - d]);
    }
  }
  void queue(size_t device, const std::string& text, uint32_t threads = 64) {
    programs.push_back(devices[device]->load(text, signature_of(text, threads)));
    const std::array<const void*, 2> parameters = {&memory[device], &memory[1 - device]};
    Launch launch;
    launch.grid = {1, 1, 1};
    launch.block = {threads, 1, 1};
    devices[device]->launch(*programs.back(), launch, parameters);
  }
  uint32_t word(size_t device, size_t at) {
    uint32_t value = 0;
    devices[device]->copy_out(&value, memory[device] + 4 * at, 4);
    return value;
  }

  std::vector<std::unique_ptr<Emulator>> devices;
  std::array<Address, 2> memory = {};
  std::vector<std::unique_ptr<Program>> programs;
};

// Returns the first report among some seeds while both devices run.
std::optional<EmulatorError> found(const std::string& text, uint64_t seeds = 24) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Pair pair(seed);
    for (size_t d = 0; d < 2; ++d) pair.queue(d, text);
    try {
      pair.devices[0]->synchronize(std::chrono::seconds(10));
    } catch (const EmulatorError& e) {
      return e;
    }
    for (size_t d = 0; d < 2; ++d) CHECK(pair.word(d, 1) == 7);
  }
  return std::nullopt;
}

struct Row {
  const char* what;
  std::string body;
  std::vector<Leave> leave;
};

const std::string store = "@%p0 st.global.u32 [%rd1], 7;\n";
const std::string done = "@%p0 ld.global.u32 %r6, [%rd0];\n@%p0 st.global.u32 [%rd0+4], %r6;\n";

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"a message: release, acquire",
       store + "@%p0 st.release.sys.global.u32 [%rd1+128], 1;\n" + poll("ld.acquire.sys.global.u32") + done,
       {{"st.release.sys", "st.release.gpu"},
        {"ld.acquire.sys", "ld.acquire.gpu"},
        {"st.release.sys", "st.relaxed.sys"},
        {"ld.acquire.sys", "ld.relaxed.sys"}}},
      {"a message: fences and relaxed accesses",
       store + "fence.acq_rel.sys;\n@%p0 red.relaxed.sys.global.add.u32 [%rd1+128], 1;\n" +
           poll("ld.relaxed.sys.global.u32") + "fence.acq_rel.sys;\n" + done,
       {{"fence.acq_rel.sys;\n@%p0 red", "fence.acq_rel.gpu;\n@%p0 red"},
        {"fence.acq_rel.sys;\n@%p0 ld", "fence.acq_rel.gpu;\n@%p0 ld"},
        {"red.relaxed.sys", "red.relaxed.gpu"},
        {"fence.acq_rel.sys;\n@%p0 red", "@%p0 red"}}},
      {"a bulk store, then a signal",
       "mov.u32 %r7, 7;\n@%p0 st.shared.v4.u32 [%r2], {%r7, %r7, %r7, %r7};\nfence.proxy.async.shared::cta;\n"
       "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;\n@%p0 "
       "cp.async.bulk.commit_group;\n"
       "@%p0 cp.async.bulk.wait_group 0;\n@%p0 red.release.sys.global.add.u32 [%rd1+128], 1;\n" +
           poll("ld.acquire.sys.global.u32") + done,
       {{"cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"},
        {"red.release.sys", "red.release.gpu"}}}};
  return table;
}

}  // namespace

TEST_CASE("kernels of two devices are ordered by the scope of the system alone") {
  for (const Row& row : rows()) {
    const std::string what = row.what;
    CAPTURE(what);
    const std::string right = kernel(row.body);
    const auto wrong = found(right);
    const std::string why = wrong ? wrong->what() : "";
    REQUIRE_MESSAGE(!wrong, why);
    for (const Leave& leave : row.leave) {
      CAPTURE(leave.out);
      CAPTURE(leave.instead);
      const auto error = found(kernel(planted(row.body, leave)));
      REQUIRE(error.has_value());
      CHECK(error->fault() == Fault::race);
      CHECK(std::string(error->what()).find("of device ") != std::string::npos);
    }
  }
}

TEST_CASE("a launch knows what those ahead of it on its device have learnt") {
  const std::string signals = kernel(store + "@%p0 st.release.sys.global.u32 [%rd1+128], 1;"),
                    waits = kernel(poll("ld.acquire.sys.global.u32")), reads = kernel(done);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Pair pair(seed);
    pair.queue(0, signals);
    pair.queue(1, waits);
    pair.queue(1, reads);
    pair.devices[1]->synchronize();
    CHECK(pair.word(1, 1) == 7);
    // A launch has ended once the host has waited for it.
    pair.queue(0, signals);
    pair.devices[0]->synchronize();
    pair.queue(1, reads);
    CHECK(pair.word(1, 1) == 7);
  }
}

TEST_CASE("who sleeps goes on while all others poll, and who polls between sleeps is named") {
  const std::string
      sleep = "nanosleep.u32 1000;\n",
      before = "setp.eq.u32 %p1, %r0, 32;\n@%p0 bra S;\n@%p1 bra W;\nbra E;\nS: ",
      signal = "st.global.u32 [%rd1], 7;\nst.release.sys.global.u32 [%rd1+128], 1;\nbra E;\n",
      polls = "W: ld.acquire.sys.global.u32 %r5, [%rd0+128];\nsetp.eq.u32 %p5, %r5, 0;\n@%p5 bra W;\n",
      reads = "ld.global.u32 %r6, [%rd0];\nst.global.u32 [%rd0+4], %r6;\nE:\n";
  const auto report = found(kernel(before + sleep + sleep + sleep + signal + polls + reads), 4);
  CHECK_MESSAGE(!report, std::string(report ? report->what() : ""));
  const std::string for_ever =
      kernel(before + sleep + "ld.acquire.sys.global.u32 %r5, [%rd0+132];\nbra S;\n" + polls + reads);
  const auto named = found(for_ever, 1);
  REQUIRE(named);
  CHECK(named->fault() == Fault::deadlock);
}

TEST_CASE("devices that wait for each other are named, and so is memory out of reach") {
  const std::string waits = kernel(poll("ld.acquire.sys.global.u32"));
  for (const uint64_t seed : {0, 1, 2}) {
    Pair pair(seed);
    for (size_t d = 0; d < 2; ++d) pair.queue(d, waits);
    try {
      pair.devices[0]->synchronize(std::chrono::seconds(60));
      FAIL("nobody ends it");
    } catch (const EmulatorError& e) {
      const std::string text = e.what();
      CHECK(e.fault() == Fault::deadlock);
      CHECK(text.find("CTA (0, 0, 0) of device 0 warp 0 lane 0 polls byte 128 of the allocation") !=
            std::string::npos);
      CHECK(text.find("CTA (0, 0, 0) of device 1 warp 0 lane 0 polls byte 128 of the allocation") !=
            std::string::npos);
    }
  }
  Pair apart(0, false);
  apart.queue(0, kernel(store));
  try {
    apart.devices[0]->synchronize();
    FAIL("the other's memory is out of reach");
  } catch (const EmulatorError& e) {
    CHECK(e.fault() == Fault::out_of_bounds);
    CHECK(std::string(e.what()).find("in the memory of device 1, which kernels of device 0 cannot access") !=
          std::string::npos);
  }
  CHECK_THROWS_WITH(
      apart.devices[0]->reach(*open_emulator()),
      "reach: the other device belongs to a different emulator; open both with one call of open_emulators()");
}

}  // namespace ptxbuilder::runtime::emulator_devices_test
