#include "mutation_subject.h"

#include "kernels/command/family.h"
#include "kernels/command/run.h"
#include "ptxbuilder/compile/codegen.h"

namespace ptxbuilder::test {

struct Subject::Built {
  const command::Family& family;
  command::Fields fields;
  std::string text;
  Signature signature;
};

Subject::Subject(const std::string& family, const std::map<std::string, int64_t>& fields)
    : built_(new Built{command::family(family), command::Fields(command::family(family).fields), {}, {}}) {
  for (const auto& [name, value] : fields) built_->fields.set(name, value);
  Kernel kernel = built_->family.build(built_->fields);
  built_->text = generate_ptx(kernel.builder());
  built_->signature = kernel.signature();
}

Subject::~Subject() = default;

std::string Subject::name() const { return built_->family.name + " " + built_->fields.text(); }

const std::string& Subject::text() const { return built_->text; }

std::optional<runtime::Fault> Subject::run(const std::string& text, uint64_t seed, int schedules,
                                           std::string& report) const {
  runtime::EmulatorOptions options;
  options.seed = seed;
  auto device = runtime::open_emulator(options);
  try {
    runtime::LoadedKernel loaded(*device, text, built_->signature);
    command::RunOptions run_options;
    run_options.seed = seed;
    run_options.schedules = schedules;
    run_options.choose_schedule = [&](uint64_t of) { device->seed(of); };
    command::Run run(*device, loaded, run_options);
    built_->family.run(built_->fields, run);
    report = run.verdict()->wrong ? "wrong: " + run.verdict()->first_wrong : "right";
  } catch (const runtime::EmulatorError& e) {
    report = e.what();
    return e.fault();
  }
  return std::nullopt;
}

}  // namespace ptxbuilder::test
