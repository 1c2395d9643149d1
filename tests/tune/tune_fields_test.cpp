// Tests `tune` for a kernel's fields. Checks which combinations are tried, the results of refused, wrong and
// right combinations, and the ranking by time.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "command_kit.h"
#include "error_kit.h"
#include "kernels/family/family.h"
#include "kernels/tune/fields.h"
#include "ptxbuilder/ir/memory.h"

namespace ptxbuilder::test::tune_fields_test {
using namespace command;

namespace {

// The emulator as a device with a clock. A launch takes a microsecond for each warp instruction.
class Timed : public runtime::Device {
 public:
  runtime::DeviceProperties properties() const override { return emulator_->properties(); }
  bool wants_ptx() const override { return true; }
  runtime::Address allocate(size_t bytes) override { return emulator_->allocate(bytes); }
  void release(runtime::Address address) noexcept override { emulator_->release(address); }
  void copy_in(runtime::Address to, const void* from, size_t bytes) override {
    emulator_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, runtime::Address from, size_t bytes) override {
    emulator_->copy_out(to, from, bytes);
  }
  void fill(runtime::Address to, uint8_t value, size_t bytes) override { emulator_->fill(to, value, bytes); }
  std::unique_ptr<runtime::Program> load(const std::string& image, const Signature& signature) override {
    return emulator_->load(image, signature);
  }
  using Device::synchronize;
  void synchronize(std::chrono::milliseconds limit) override { emulator_->synchronize(limit); }
  std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) override {
    std::vector<double> times;
    for (int i = -warm_up; i < count; ++i) {
      const uint64_t before = emulator_->statistics().warp_instructions;
      queue();
      synchronize(std::chrono::seconds(10));
      if (i >= 0) times.push_back(static_cast<double>(emulator_->statistics().warp_instructions - before));
    }
    return times;
  }

 protected:
  runtime::TensorMap encode_in_scope(const runtime::TensorMapView& map) override {
    return emulator_->encode(map);
  }
  void launch_in_scope(runtime::Program& program, const runtime::Launch& launch,
                       std::span<const void* const> parameters) override {
    emulator_->launch(program, launch, parameters);
  }

 private:
  std::unique_ptr<runtime::Emulator> emulator_ = runtime::open_emulator();
};

// Computes y = 2 x, with `each` elements per thread; 8 and 16 are refused. With `wrong`, it computes y = x.
Kernel twice(const Fields& f) {
  const int each = f.small("each");
  if (each == 8) throw Error("twice: 8 elements are more than a thread takes");
  if (each == 16) throw std::out_of_range("of the author's own");
  Kernel k("twice");
  auto [x, y, n] = k.params<gptr<f32>, gptr<f32>, u32>("x", "y", "n");
  k.threads(32);
  k.grid("ceil_div(n, " + std::to_string(32 * each) + ")");
  const u32 first = (ctaid_x() * 32 + tid_x()) * each;
  const float factor = f.word("wrong") == "yes" ? 1 : 2;
  for (int i = 0; i < each; ++i) {
    const u32 at = first + i;
    if_(at < n, [&] { y[at] = factor * x[at]; });
  }
  return k;
}

void run_twice(const Fields& f, Run& run) {
  const auto n = static_cast<uint32_t>(f["n"]);
  Tensor x = run.normal(DType::f32, {n}), y = run.output(DType::f32, {n});
  run.launch({x.pointer(), y.pointer(), runtime::scalar(n)});
  run.check(y, 1, [&](size_t i) { return Expected{2 * x[i], 0}; });
  run.measure(n, 8.0 * n);
}

Family family() {
  return {.name = "twice",
          .summary = "y = 2 x",
          .fields = {{"n", 256, "elements"},
                     {"each", 1, "elements of a thread"},
                     {"wrong", 0, "whether it is", 1, 1, {"no", "yes"}}},
          .build = twice,
          .run = run_twice};
}

std::vector<std::string> values(const std::vector<Trial>& all) {
  std::vector<std::string> texts;
  for (const Trial& trial : all) texts.push_back(trial.values);
  return texts;
}

ExecuteOptions options() {
  ExecuteOptions o;
  o.assembler = Assembler::none;
  o.run.launches = 3;
  o.run.warm_up = 1;
  return o;
}

}  // namespace

TEST_CASE("all combinations of the values are tried, and invalid words are refused") {
  const Fields fields(family().fields);
  const std::vector<Trial> all = trials(fields, {"each=1,4", "wrong=no,yes"}, {"n"});
  CHECK(values(all) == std::vector<std::string>{"each=1 wrong=no", "each=1 wrong=yes", "each=4 wrong=no",
                                                "each=4 wrong=yes"});
  CHECK(all[3].fields["each"] == 4);
  CHECK(all[3].fields["n"] == 256);
  for (const auto& [words, text] : std::map<std::string, std::string>{
           {"each", "--field 'each': it must be a field and its values, such as bm=64,128"},
           {"each=", "--field 'each=': it must be a field"},
           {"each=1,,2", "--field 'each=1,,2': it must be a field"},
           {"width=1", "no field is named 'width'; the fields are n, each, wrong"},
           {"each=0", "field each = 0: it must be at least 1"},
           {"wrong=maybe", "field wrong = maybe: it must be one of no, yes"}})
    CHECK_ERROR(trials(fields, {words}, {}), text);
  CHECK_ERROR(trials(fields, {"each=1", "each=2"}, {}), "--field each: it is named twice");
  CHECK_ERROR(trials(fields, {"each=1,2"}, {"each"}), "--field each and --each: pass either");
  std::string many = "each=1", more = "n=1";
  for (int i = 2; i <= 65; ++i) many += fmt::format(",{}", i), more += fmt::format(",{}", i);
  CHECK_ERROR(trials(fields, {many, more}, {}), "make more than 4096 combinations: try fewer");
}

TEST_CASE("right combinations are timed and ranked, and refused or wrong ones have their reason") {
  const Family twice = family();
  Timed device;
  std::vector<Trial> all = trials(Fields(twice.fields), {"each=1,2,4,8,16", "wrong=no,yes"}, {});
  measure(twice, all, device, options(), 5, true);
  REQUIRE(all.size() == 10);
  // More elements per thread need fewer warps, each of which computes its index.
  CHECK(all[0].values == "each=4 wrong=no");
  CHECK(all[1].values == "each=2 wrong=no");
  CHECK(all[2].values == "each=1 wrong=no");
  CHECK(all[0].median() < all[1].median());
  CHECK(all[1].median() < all[2].median());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(all[i].rounds.size() == 5);
    CHECK(all[i].rounds[0].microseconds.size() == 3);
    CHECK(all[i].rounds[0].bytes == 8.0 * 256);
    CHECK(all[i].problem.empty());
  }
  int wrong = 0, refused = 0;
  for (size_t i = 3; i < 10; ++i) {
    CHECK(all[i].rounds.empty());
    wrong += all[i].wrong && all[i].problem.starts_with("WRONG: ");
    refused +=
        !all[i].wrong && (all[i].problem.starts_with("twice: 8 elements are more than a thread takes") ||
                          all[i].problem == "of the author's own");
  }
  CHECK(wrong == 3);
  CHECK(refused == 4);
}

TEST_CASE("a kernel that is not measured, or not checked, is refused") {
  Timed device;
  for (const bool checks : {true, false}) {
    Family lazy = family();
    lazy.run = [checks](const Fields& f, Run& run) {
      const auto n = static_cast<uint32_t>(f["n"]);
      Tensor x = run.normal(DType::f32, {n}), y = run.output(DType::f32, {n});
      run.launch({x.pointer(), y.pointer(), runtime::scalar(n)});
      if (checks) run.check(y, 1, [&](size_t i) { return Expected{2 * x[i], 0}; });
    };
    std::vector<Trial> all = trials(Fields(lazy.fields), {"each=1"}, {});
    measure(lazy, all, device, options(), 5, true);
    CHECK(all[0].problem == (checks ? "nothing is timed: the run() of the kernel does not call measure()"
                                    : "nothing was verified: the run() of 'twice' does not call check()"));
  }
}

TEST_CASE("on the emulator everything is verified and nothing is ranked; a kernel's name may be left out") {
  for (const char* words : {"saxpy tune", "saxpy tune saxpy", "ptxb tune saxpy"}) {
    CAPTURE(words);
    const Ran ran = run(fmt::format(
        "{} --field threads=32,64 --field n=8,32 --m 4 --device emulator --assembler none", words));
    CHECK(ran.code == 1);
    CHECK(contains(ran, "4 combinations, seed "));
    CHECK(contains(ran, "* threads=32 n=32"));
    CHECK(contains(ran, "  threads=64 n=8 "));
    CHECK(contains(ran, "4 combinations: 4 right, 0 wrong, 0 refused"));
    CHECK(contains(ran, "error: times need a GPU"));
    CHECK(ran.output.find("best: ") == std::string::npos);
  }
  const Ran refused = run("saxpy tune --field threads=32,2048 --device emulator --assembler none --json");
  const auto json = nlohmann::json::parse(refused.output.substr(refused.output.find('{')));
  REQUIRE(json["trials"].size() == 2);
  CHECK(json["trials"][0]["threads"] == 32);
  CHECK(json["trials"][1]["problem"].get<std::string>().find("2048") != std::string::npos);
  const Ran missing = run("saxpy tune --device emulator");
  CHECK(missing.code == 2);
  CHECK(contains(missing, "--field is required"));
  CHECK(run("ptxb tune gemm --help").output.find("--top") != std::string::npos);  // gemm has its own options
}

}  // namespace ptxbuilder::test::tune_fields_test
