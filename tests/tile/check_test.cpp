// Tests a kernel with checks and prints, and the same kernel without them.
//
//   check_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/check.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/place.h"
#include "ptxbuilder/registers/print.h"

namespace ptxbuilder::test::check_test {
namespace {

// Each thread of a role with few registers, and one thread of another role, has a message. Without `checks`,
// the kernel computes the same results.
Kernel subject(bool checks = true) {
  Kernel k("subject");
  auto [to, n] = k.params<gptr<f32>, u32>("out", "n");
  k.warpgroups("few", 1, 24, [&, to = to, n = n](u32) {
    const u32 i = tid_x();
    if (checks) check(i < n, "index {} of {}", i, n);
    to[i] = f32(i);
  });
  k.warpgroups("many", 1, 232, [&, to = to](u32) {
    elect([&] {
      const f32 value = f32(tid_x()) * 0.5f;
      if (checks) print("{} {} {} {}", s32(-3), value, f64(0.25), value > 1.0f);
      if (checks) check_finite(value);
      if (checks) check_range(value, 0, 100);
      to[tid_x()] = value;
    });
  });
  return k;
}

Kernel checked(const std::function<Kernel()>& make, uint32_t messages = 64) {
  const ChecksScope scope(messages);
  return make();
}

struct Told {
  std::vector<std::string> printed;
  std::string error;
};

Told run(Kernel k, uint32_t n, int launches = 1) {
  Running running;
  const Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  Told told;
  kernel.on_print([&](const std::string& line) { told.printed.push_back(line); });
  runtime::Buffer memory(*running.device, 4 * 256);
  memory.fill(0);
  for (int i = 0; i < launches; ++i) {
    kernel.launch({.grid = {1}}, {runtime::pointer(memory, DType::f32), runtime::scalar(n)});
    told.error = error_of([&] { running.device->synchronize(); });
  }
  return told;
}

}  // namespace

TEST_CASE("without checks a kernel has no code of them") {
  const auto code = [](Kernel k) {  // without the source lines, which differ
    std::string kept;
    std::istringstream lines(ptx_of(k));
    for (std::string line; std::getline(lines, line);)
      if (!contains(line, ".loc") && !contains(line, ".file")) kept += line + "\n";
    return kept;
  };
  CHECK(code(subject(true)) == code(subject(false)));
  Kernel on = checked([] { return subject(); });
  CHECK(contains(ptx_of(on), "atom.relaxed.gpu.global.add.u32"));
  CHECK_FALSE(contains(ptx_of(on), "call"));
  CHECK(signature_from_json(to_json(on.signature()), "subject.json") == on.signature());
}

TEST_CASE("checks that hold print nothing, and prints have their values and their line") {
  const Told told = run(checked([] { return subject(); }), 128, 2);
  CHECK(told.error == "");
  REQUIRE(told.printed.size() == 2);
  CHECK(told.printed[0] == told.printed[1]);
  const std::string& line = told.printed[0];
  CAPTURE(line);
  CHECK(contains(line, "check_test.cpp:"));
  CHECK(contains(line, "CTA (0, 0, 0) thread "));
  CHECK(contains(line, ": -3 "));
  CHECK(contains(line, " 0.25 true"));
}

TEST_CASE("failed checks are an error with line, text and values; messages beyond the room are counted") {
  const Told told = run(checked([] { return subject(); }), 125);
  CAPTURE(told.error);
  CHECK(contains(told.error, "kernel subject: 3 checks failed"));
  CHECK(contains(told.error, "thread 125: index 125 of 125"));
  CHECK(contains(told.error, "thread 127: index 127 of 125"));
  CHECK(contains(told.error, "check_test.cpp:"));
  const Told full = run(checked([] { return subject(); }, 8), 0);
  CHECK(contains(full.error, "8 checks failed"));
  CHECK(contains(full.error, "there was no room for 121 messages"));
}

TEST_CASE("NaN, infinity and values out of their range are reported") {
  const auto make = [](float value) {
    return checked([=] {
      Kernel k("values");
      auto [to, n] = k.params<gptr<f32>, u32>("out", "n");
      if_(tid_x() == n, [&, to = to] {
        const f32 v = to[0] + value;
        check_finite(v);
        check_range(v, -1, 1);
      });
      return k;
    });
  };
  CHECK(run(make(0.5f), 0).error == "");
  CHECK(contains(run(make(NAN), 0).error, "the value nan is not finite"));
  CHECK(contains(run(make(-INFINITY), 0).error, "the value -inf is not finite"));
  CHECK(contains(run(make(2), 0).error, "the value 2 is not in the range -1 to 1"));
  CHECK(contains(run(make(NAN), 0).error, "2 checks failed"));
}

TEST_CASE("a tile is printed as the matrix that its layout makes of the threads' values, each time anew") {
  const auto make = [] {
    Kernel k("tiles");
    auto [to, n] = k.params<gptr<f32>, u32>("out", "n");
    k.warpgroups("all", 2, 120, [&, to = to, n = n](u32 warpgroup) {
      for_(0, n, [&](u32 turn) {
        const RegisterLayout layout = wgmma_layout(64, 16), rows = wgmma_row(64);
        const detail::Places places(layout), place_of_row(rows);
        const auto x = RegisterTile<f32>::of(
            layout, [&](int i) { return f32(places.row(i) * 100 + places.col(i)) + f32(turn) * 0.5f; });
        const auto y = RegisterTile<s32>::of(rows, [&](int i) { return s32(0) - s32(place_of_row.row(i)); });
        if_(warpgroup == 1, [&] {
          print("scores", x);
          print("signs", astype<f16>(x) > 6301.0f);
          print("sums", y);
        });
      });
      to[tid_x()] = 1;
    });
    return k;
  };
  const Told told = run(checked(make, 8192), 2);
  CHECK(told.error == "");
  REQUIRE(told.printed.size() == 6);
  const auto rows_of = [&](const std::string& name, size_t which) {
    std::vector<std::string> lines;
    for (const std::string& text : told.printed) {
      if (!contains(text, ": " + name + ", 64 x ") || which-- != 0) continue;
      CHECK(contains(text, "check_test.cpp:"));
      CHECK(contains(text, "CTA (0, 0, 0) warpgroup 1: "));
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) lines.push_back(line);
    }
    REQUIRE(lines.size() == 65);
    return lines;
  };
  CHECK(rows_of("scores", 0)[1].starts_with("    0:    0    1    2 "));
  CHECK(rows_of("scores", 0)[64].ends_with(" 6312 6313 6314 6315"));
  CHECK(rows_of("scores", 1)[1].starts_with("    0:    0.5    1.5    2.5 "));
  CHECK(rows_of("signs", 0)[63].ends_with("false false"));
  CHECK(contains(rows_of("signs", 0)[64], " false  true "));
  CHECK(rows_of("sums", 0)[64] == "   63: -63");
  Kernel off = make();
  CHECK_FALSE(contains(ptx_of(off), "atom.relaxed"));
}

TEST_CASE("a message has a {} for each value") {
  Kernel k("wrong");
  CHECK_ERROR(check(tid_x() == 0, "index {}"), "check: \"index {}\" has 1 {}, but 0 values were given");
  CHECK_ERROR(print("none", tid_x()), "print: \"none\" has 0 {}, but 1 values were given");
  CHECK_ERROR(print("{:x}", tid_x()), "has a brace at 0 that is not part of a {}");
  const u32 t = tid_x();
  CHECK_ERROR(print("{}{}{}{}{}{}{}", t, t, t, t, t, t, t),
              "7 values were given, but a message has at most 6");
  CHECK_ERROR(check_range(f32(1), 2, 1),
              "check_range: 2 to 1 is not a range, since the lower limit must not exceed the upper");
  CHECK_ERROR(ChecksScope(0),
              "ChecksScope: room for 0 messages was requested, but the number must be 1 to 1048576");
}

}  // namespace ptxbuilder::test::check_test
