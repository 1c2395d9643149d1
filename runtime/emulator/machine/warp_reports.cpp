// A warp's reports of faults and notes, each with the place in the program.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

void Warp::note(const std::string& message, int lane, uint32_t at) const {
  if (!grid().reports->wants_notes()) return;
  grid().reports->note(grid().kernel.name, at == no_pc ? here() : at, report(message, lane, at));
}

void Warp::add_uninitialised(Cta& owner, uint32_t at, const std::string& message, int lane) const {
  auto& list = owner.uninitialised;
  if (!list.empty() && !grid().reports->wants_findings()) return;
  if (std::ranges::find(list, at, &std::pair<EmulatorError, uint32_t>::second) == list.end())
    list.emplace_back(error(Fault::uninitialised, message, lane, at), at);
}

void Warp::fail(Fault fault, const std::string& message, int lane) const {
  EmulatorError e = error(fault, message, lane);
  // A read of uninitialised memory explains a wrong address, and may explain another fault.
  const bool wrong_address =
      fault == Fault::out_of_bounds || fault == Fault::misaligned || fault == Fault::operand;
  if (cta.uninitialised.empty()) throw e;
  const EmulatorError& before = cta.uninitialised[0].first;
  if (wrong_address)
    throw EmulatorError(Fault::uninitialised, before.ptx_line(),
                        fmt::format("{}\n  then: {}", before.what(), e.what()));
  throw EmulatorError(fault, e.ptx_line(), fmt::format("{}\n  before that: {}", e.what(), before.what()));
}

void Warp::find(Fault fault, const std::string& message, int lane, uint32_t at) const {
  if (at == no_pc) at = here();
  if (!grid().reports->wants_findings() && fault != Fault::race) fail(fault, message, lane);
  find(error(fault, message, lane, at), at);
}

void Warp::find(const EmulatorError& fault, uint32_t at) const {
  if (!grid().reports->wants_findings()) throw fault;
  grid().reports->find(grid().kernel.name, at, fault);
}

EmulatorError Warp::error(Fault fault, const std::string& message, int lane, uint32_t at) const {
  if (at == no_pc && instruction) at = here();
  return EmulatorError(fault, at == no_pc ? 0 : grid().kernel.lines[at].ptx,
                       fmt::format("{}: {}", name(fault), report(message, lane, at)));
}

std::string Warp::report(const std::string& message, int lane, uint32_t at) const {
  const Kernel& kernel = grid().kernel;
  std::string text = message;
  if (at == no_pc && instruction) at = here();
  if (at != no_pc) {
    const SourceLine& source = kernel.lines[at];
    text += fmt::format("\n  at PTX line {}: {}", source.ptx, kernel.texts[at]);
    if (source.line) text += fmt::format("\n  from {}", kernel.source(source.file, source.line));
    for (int32_t call = source.call; call >= 0;) {
      const InlinedCall& site = kernel.inlined_calls[static_cast<size_t>(call)];
      text += "\n  " + kernel.inlined(site);
      call = site.call;
    }
  }
  text += fmt::format("\n  kernel {}, CTA ({}, {}, {}){}, warp {}", kernel.name, cta.id.x, cta.id.y, cta.id.z,
                      grid().of_device(), index);
  if (lane >= 0) text += fmt::format(", lane {}", lane);
  return text;
}

}  // namespace ptxbuilder::runtime::emulator
