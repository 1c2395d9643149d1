// Rules about wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): the registers of a wgmma
// may be accessed only after a wait, and the next wgmma after such an access requires a fence.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_paths.h"

namespace ptxbuilder::analysis {
namespace {

// The age of a wgmma group. It is kOpen if the group is not committed, kOpen + 1 for the last committed
// group, and so on.
constexpr uint8_t kDone = 0, kOpen = 1, kOldest = 250;
// The access to a register since the last fence: no access, an access by an instruction other than wgmma, or
// an access by a wgmma of shape number n (kByShape + n).
constexpr int kClean = 0, kTouched = 1, kByShape = 2;

struct Register {
  int touched = kTouched;  // a register counts as touched before the first fence
  uint8_t age = kDone;     // age of the most recent wgmma that may still use the register
  int user = kNone;        // the wgmma to which `age` refers
  bool is_result = false;  // true if the register is a result of `user`

  bool operator==(const Register&) const = default;
};

struct WgmmaState {
  std::vector<Register> registers;

  bool operator==(const WgmmaState&) const = default;
  size_t size() const { return registers.size() / 4 + 1; }
  bool join(const WgmmaState& other) {
    bool changed = false;
    for (size_t i = 0; i < registers.size(); ++i) {
      Register& mine = registers[i];
      const Register& theirs = other.registers[i];
      Register both = mine;
      if (theirs.touched != mine.touched)
        both.touched = mine.touched == kClean     ? theirs.touched
                       : theirs.touched == kClean ? mine.touched
                                                  : kTouched;
      if (theirs.age != kDone && (mine.age == kDone || theirs.age < mine.age)) {
        both.age = theirs.age;
        both.user = theirs.user;
      }
      both.is_result = mine.is_result || theirs.is_result;
      changed |= !(both == mine);
      mine = both;
    }
    return changed;
  }
};

class WgmmaWalk {
 public:
  enum Kind : int { kUnfenced, kInFlight, kLeft };

  explicit WgmmaWalk(LintKernel& kernel) : kernel_(kernel), place_(kernel.code.registers.size(), kNone) {
    for (int i = 0; i < kernel.count(); ++i) {
      const Operation& o = kernel.operation(i);
      if (!o.is_wgmma()) continue;
      for (size_t n = 0; n < 2 && n < o.operands.size(); ++n)
        for (const Value& part : o.operands[n].parts)
          if (part.kind == Value::Kind::reg && place_[at(part.number)] == kNone)
            place_[at(part.number)] = static_cast<int>(count_++);
    }
  }

  std::set<LintEvent> run() {
    if (count_ == 0) return {};
    for (const ThreadClass& c : kernel_.classes) {
      const auto multiplies = [&](int i) {
        return c.runs[at(i)] != Runs::no && kernel_.operation(i).is_wgmma();
      };
      bool any = false;
      for (int i = 0; i < kernel_.count() && !any; ++i) any = multiplies(i);
      if (!any) continue;
      WgmmaState start;
      start.registers.resize(count_);
      follow(kernel_, c, start, [&](WgmmaState& s, int i, bool is_last) { step(s, i, is_last); });
    }
    return std::move(events_);
  }

 private:
  void add(Kind kind, int operation, std::string what, int other) {
    events_.insert({kind, operation, other, std::move(what)});
  }
  std::string name(int reg) const { return kernel_.code.registers[at(reg)].name; }

  void step(WgmmaState& s, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    if (o.is_wgmma()) return multiply(s, i, is_last);
    if (o.is("wgmma")) return synchronize(s, o);
    if (kernel_.ends(i) && is_last) leave(s);
    for (const auto* list : {&o.reads, &o.writes})
      for (int reg : *list)
        if (place_[at(reg)] != kNone) touch(s, i, reg, list == &o.writes, is_last);
  }

  void touch(WgmmaState& s, int i, int reg, bool writes, bool is_last) {
    Register& r = s.registers[at(place_[at(reg)])];
    if (is_last && r.age != kDone && (r.is_result || writes))
      add(kInFlight, i,
          fmt::format("{} {} a register that wgmma may still be {}, of {}", kernel_.operation(i).text->opcode,
                      writes ? "writes" : "reads", r.is_result ? "writing" : "reading",
                      r.age == kOpen ? "a group that is not committed"
                                     : fmt::format("the group committed {} before", ago(r.age))),
          r.user);
    r.touched = kTouched;
  }
  static std::string ago(uint8_t age) {
    const int groups = age - kOpen - 1;
    return groups == 0 ? "last" : groups == 1 ? "1 group" : fmt::format("{} groups", groups);
  }

  int shape_of(const Operation& o) {
    return kByShape + shapes_.emplace(o.text->opcode, static_cast<int>(shapes_.size())).first->second;
  }

  void multiply(WgmmaState& s, int i, bool is_last) {
    const Operation& o = kernel_.operation(i);
    const int shape = shape_of(o);
    for (size_t n = 0; n < 2 && n < o.operands.size(); ++n)
      for (const Value& part : o.operands[n].parts) {
        if (part.kind != Value::Kind::reg) continue;
        Register& r = s.registers[at(place_[at(part.number)])];
        const bool is_result = n == 0;
        const bool is_unfenced =
            r.touched == kTouched || (is_result && r.touched != kClean && r.touched != shape);
        if (is_last && is_unfenced)
          add(kUnfenced, i,
              fmt::format("{} uses registers {} without wgmma.fence since {}",
                          o.text->opcode.substr(0, o.text->opcode.find('.')),
                          is_result ? "for its accumulators" : "for A",
                          r.touched == kTouched ? "they were accessed, or the kernel began"
                                                : "a wgmma of another shape"),
              kNone);
        if (is_last && !is_result && r.age != kDone && r.is_result)
          add(kInFlight, i, "wgmma reads A from registers that an earlier wgmma may still be writing",
              r.user);
        if (is_result) r.touched = shape;
        r.age = kOpen;
        r.user = i;
        r.is_result = is_result;
      }
  }

  void synchronize(WgmmaState& s, const Operation& o) {
    if (o.has("fence"))
      for (Register& r : s.registers) r.touched = kClean;
    if (o.has("commit_group"))
      for (Register& r : s.registers)
        if (r.age != kDone && r.age < kOldest) ++r.age;
    if (!o.has("wait_group") || o.operands.empty()) return;
    const int64_t left = o.operands[0].value;
    for (Register& r : s.registers)
      if (r.age > kOpen && r.age - kOpen > left) r.age = kDone, r.user = kNone, r.is_result = false;
  }

  void leave(const WgmmaState& s) {
    for (const Register& r : s.registers)
      if (r.age != kDone)
        add(kLeft, r.user,
            r.age == kOpen ? "this wgmma is not committed to a group before the kernel ends"
                           : "no wgmma.wait_group waits for this wgmma before the kernel ends",
            kNone);
  }

  LintKernel& kernel_;
  std::set<LintEvent> events_;
  std::vector<int> place_;  // for each register, its index in WgmmaState
  size_t count_ = 0;
  std::map<std::string, int> shapes_;
};

std::set<LintEvent> walk_wgmma(LintKernel& kernel) { return WgmmaWalk(kernel).run(); }

}  // namespace

void check_wgmma_fence(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_wgmma, WgmmaWalk::kUnfenced, report);
}
void check_accumulators(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_wgmma, WgmmaWalk::kInFlight, report);
}
void check_wgmma_groups(LintKernel& kernel, Report& report) {
  report_events(kernel, walk_wgmma, WgmmaWalk::kLeft, report);
}

}  // namespace ptxbuilder::analysis
