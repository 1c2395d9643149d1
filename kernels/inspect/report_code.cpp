#include "kernels/inspect/report_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/inspect/sass.h"
#include "ptxbuilder/analysis/loop_work.h"
#include "ptxbuilder/analysis/register_estimate.h"
#include "ptxbuilder/analysis/sass_registers.h"
#include "ptxbuilder/compile/line_map.h"
#include "ptxbuilder/compile/nvdisasm.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using namespace analysis;

class CodeReporter {
 public:
  CodeReporter(const Built& built, const std::string& nvdisasm)
      : compiled_(built.compiled),
        nvdisasm_(nvdisasm),
        kernel_(compiled_.ptx, compiled_.signature.kernel),
        map_(compiled_.ptx),
        loops_(loop_work(kernel_)) {}

  Json json() {
    const Signature& s = compiled_.signature;
    Json all = {{"registers", s.registers ? Json(*s.registers) : Json()},
                {"spill_bytes", s.spill_bytes ? Json(*s.spill_bytes) : Json()},
                {"stack_bytes", s.stack_bytes ? Json(*s.stack_bytes) : Json()},
                {"notes", notes()},
                {"defects", defects()},
                {"estimate", estimate()},
                {"peaks", Json()},
                {"loops", loops()},
                {"stage_clocks", Json::object()}};
    for (const auto& [unit, clocks] : stage_clocks(loops_)) all["stage_clocks"][unit] = clocks;
    if (compiled_.cubin.empty()) {
      all["missing"].push_back("registers, notes of ptxas and occupancy: there is no cubin");
      return all;
    }
    try {
      machine_code(all);
    } catch (const Error& e) {
      all["missing"].push_back(fmt::format("registers by life range: {}", e.what()));
    }
    return all;
  }

  std::string type() const { return product_type(kernel_); }

 private:
  std::string role_at(int operation) const {
    const int block = kernel_.graph.block_of[at(operation)];
    for (const Role& role : kernel_.portrait.roles)
      if (std::find(role.blocks.begin(), role.blocks.end(), block) != role.blocks.end()) return role.name;
    return "";
  }
  std::string role_at_line(int ptx_line) const {
    for (size_t n = 0; n < kernel_.code.operations.size(); ++n)
      if (static_cast<int>(kernel_.code.operations[n].at.line) == ptx_line)
        return role_at(static_cast<int>(n));
    return "";
  }
  // Returns the role to which setmaxnreg grants this number of registers; "" if there is no such role, or if
  // there are several.
  std::string role_granted(std::optional<int> registers) const {
    std::string name;
    for (const Role& role : kernel_.portrait.roles)
      if (registers && role.registers == *registers) name += (name.empty() ? "" : " and ") + role.name;
    return name;
  }

  Json place(int ptx_line) const {
    const SourceLine source = map_.at(ptx_line);
    Json json = {{"ptx_line", ptx_line}};
    if (source) json["source"] = to_string(source);
    if (const std::string role = role_at_line(ptx_line); !role.empty()) json["role"] = role;
    return json;
  }

  Json notes() const {
    Json all = Json::array();
    for (const Note& note : compiled_.assembled.notes.messages) {
      Json json = {{"severity", name(note.severity)}, {"code", note.code}, {"text", to_string(note)}};
      if (note.ptx_line > 0) json.update(place(note.ptx_line));
      all.push_back(std::move(json));
    }
    for (const Cost& cost : costs_of(compiled_.assembled.notes))
      if (!cost.waiver.starts_with("C75"))
        all.push_back({{"severity", "warning"}, {"code", cost.waiver}, {"text", cost.text}});
    return all;
  }

  Json defects() const {
    Json all = Json::array();
    for (const PossibleDefect& d : compiled_.assembled.defects) {
      all.push_back({{"name", d.defect.name}, {"text", d.text()}});
      all.back().update(place(d.ptx_line));
    }
    return all;
  }

  Json estimate() const {
    Json all = Json::array();
    for (const RegisterEstimate& e : estimate_registers(kernel_.code, kernel_.graph)) {
      Json json = {{"granted", e.granted ? Json(*e.granted) : Json()},
                   {"registers", e.registers},
                   {"accumulators", e.accumulators}};
      if (e.line > 0) json.update(place(static_cast<int>(e.line)));
      if (const std::string role = role_granted(e.granted); !role.empty()) json["role"] = role;
      all.push_back(std::move(json));
    }
    return all;
  }

  Json loops() const {
    Json all = Json::array();
    for (const LoopWork& w : loops_)
      all.push_back({{"role", w.role},
                     {"first_line", w.first_line},
                     {"last_line", w.last_line},
                     {"source", to_string(map_.at(static_cast<int>(w.first_line)))},
                     {"stages", w.stages},
                     {"flops", w.flops},
                     {"tensor_clocks", w.tensor_clocks},
                     {"read_bytes", w.read_bytes},
                     {"arriving_bytes", w.arriving_bytes},
                     {"special", w.special}});
    return all;
  }

  void machine_code(Json& all) const {
    const std::string& cubin = compiled_.cubin;
    const SassKernel sass = sass_of(cubin, compiled_.signature.kernel, nvdisasm_, true);
    const LifeRanges ranges =
        parse_life_ranges(sass, Nvdisasm(PtxasSearch::from_environment(nvdisasm_)).life_ranges(cubin));
    auto told = [&](int number) {
      const SassInstruction& i = sass.instructions[at(number)];
      Json json = {{"address", i.address}, {"instruction", i.text()}};
      if (i.line > 0) json.update(place(static_cast<int>(i.line)));
      return json;
    };
    all["peaks"] = Json::array();
    for (const RegisterPeak& peak : register_peaks(sass, ranges)) {
      Json json = {{"granted", peak.granted ? Json(*peak.granted) : Json()},
                   {"live", peak.live},
                   {"uses", Json::object()}};
      for (const auto& [what, count] : peak.uses) json["uses"][what] = count;
      if (peak.instruction != kNone) json.update(told(peak.instruction));
      if (const std::string role = role_granted(peak.granted); !role.empty()) json["role"] = role;
      all["peaks"].push_back(std::move(json));
    }
    all["spills"] = Json::array();
    for (size_t n = 0; n < sass.instructions.size(); ++n)
      if (const std::string_view root = sass.instructions[n].root(); root == "STL" || root == "LDL")
        all["spills"].push_back(told(static_cast<int>(n)));
    all["overwritten_operands"] = Json::array();
    for (const OverwrittenOperand& o : overwritten_operands(sass, ranges))
      all["overwritten_operands"].push_back(
          {{"register", o.number}, {"wgmma", told(o.wgmma)}, {"writer", told(o.writer)}});
  }

  const Compiled& compiled_;
  const std::string& nvdisasm_;
  const KernelAnalysis kernel_;
  const LineMap map_;
  const std::vector<LoopWork> loops_;
};

}  // namespace

CodeReport report_code(const Built& built, const std::string& nvdisasm) {
  CodeReporter reporter(built, nvdisasm);
  CodeReport report{reporter.json().dump(), reporter.type(), 0};
  report.flops_of_a_clock = flops_of_a_clock(report.product_type);
  return report;
}

}  // namespace ptxbuilder::command
