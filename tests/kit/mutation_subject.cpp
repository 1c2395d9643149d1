#include "mutation_subject.h"

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/compile/codegen.h"

namespace ptxbuilder::test {

struct Subject::Built {
  std::string name, text;
  Signature signature;
  // Launches with `schedules` seeds, starting at `seed`, each of which chooses a schedule, and returns a
  // report.
  using Choose = std::function<void(uint64_t)>;
  std::function<std::string(runtime::Device&, runtime::LoadedKernel&, uint64_t seed, int schedules, Choose)>
      run;
};

Subject::Subject(const std::string& family, const std::map<std::string, int64_t>& values)
    : built_(new Built) {
  const command::Family& chosen = command::family(family);
  command::Fields fields(chosen.fields);
  for (const auto& [name, value] : values) fields.set(name, value);
  Kernel kernel = chosen.build(fields);
  built_->name = chosen.name + " " + fields.text();
  built_->text = generate_ptx(kernel.builder());
  built_->signature = kernel.signature();
  built_->run = [&chosen, fields](runtime::Device& device, runtime::LoadedKernel& loaded, uint64_t seed,
                                  int schedules, Built::Choose choose) {
    command::RunOptions options;
    options.seed = seed;
    options.schedules = schedules;
    options.choose_schedule = choose;
    command::Run run(device, loaded, options);
    chosen.run(fields, run);
    return run.verdict()->wrong ? "wrong: " + run.verdict()->first_wrong : std::string("right");
  };
}

Subject::Subject(std::string name, std::string text, Signature signature, Check check) : built_(new Built) {
  built_->name = std::move(name);
  built_->text = std::move(text);
  built_->signature = std::move(signature);
  built_->run = [check](runtime::Device& device, runtime::LoadedKernel& loaded, uint64_t seed, int schedules,
                        const Built::Choose& choose) {
    std::string report = "right";
    for (int i = 0; i < schedules && report == "right"; ++i) {
      choose(seed + static_cast<uint64_t>(i));
      report = check(device, loaded);
    }
    return report;
  };
}

Subject::~Subject() = default;

std::string Subject::name() const { return built_->name; }

const std::string& Subject::text() const { return built_->text; }

std::optional<runtime::Fault> Subject::run(const std::string& text, uint64_t seed, int schedules,
                                           std::string& report, std::string* notes) const {
  runtime::EmulatorOptions options;
  options.seed = seed;
  if (notes) options.note = [&](const std::string& note) { *notes += note + "\n"; };
  auto device = runtime::open_emulator(options);
  try {
    runtime::LoadedKernel loaded(*device, text, built_->signature);
    report = built_->run(*device, loaded, seed, schedules, [&](uint64_t of) { device->seed(of); });
  } catch (const runtime::EmulatorError& e) {
    report = e.what();
    return e.fault();
  }
  return std::nullopt;
}

std::string Subject::run_on(runtime::Device& device, int times) const {
  runtime::LoadedKernel loaded(device, built_->text, built_->signature);
  return built_->run(device, loaded, 0, times, [](uint64_t) {});
}

}  // namespace ptxbuilder::test
