// Control flow, calls, and the instructions that concern a whole thread (PTX ISA, "Control Flow
// Instructions", "Miscellaneous Instructions").
#include <fmt/format.h>
#include <fmt/printf.h>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

void execute_bra(Warp& w, const Instruction& i, Lanes lanes) { w.branch(i, lanes); }

// Lanes of one target leave together; the others execute this again.
void execute_brx(Warp& w, const Instruction& i, Lanes lanes) {
  const uint32_t* index = w.at<uint32_t>(i.r[0]);
  const uint32_t first = index[__builtin_ctz(lanes)];
  if (first >= i.list_size)
    w.fail(Fault::operand, fmt::format("index {} of a table of {} targets", first, i.list_size),
           __builtin_ctz(lanes));
  Lanes same = 0;
  for_lanes(lanes, [&](int k) { same |= static_cast<Lanes>(index[k] == first) << k; });
  Instruction jump = i;
  jump.target = w.listed(i, first);
  if (same != w.lanes) w.pc = w.here();
  w.branch(jump, same);
}

void execute_exit(Warp& w, const Instruction&, Lanes lanes) { w.exit(lanes); }
void execute_trap(Warp& w, const Instruction&, Lanes lanes) {
  w.fail(Fault::trap, "the kernel trapped", __builtin_ctz(lanes));
}
void execute_nothing(Warp&, const Instruction&, Lanes) {}
void execute_nanosleep(Warp& w, const Instruction&, Lanes) { w.pause(Wait::sleep); }

std::byte* local_of(Warp& w, int lane, uint32_t offset) {
  return w.cta.local.data() +
         uint64_t{w.index * 32 + static_cast<uint32_t>(lane)} * w.grid().kernel.local_bytes + offset;
}

void copy_locals(Warp& w, uint32_t list, uint32_t count, Lanes lanes) {
  const uint32_t* l = w.grid().kernel.lists.data() + list;
  for (uint32_t k = 0; k < count; ++k, l += 3)
    for_lanes(lanes, [&](int lane) { std::memcpy(local_of(w, lane, l[1]), local_of(w, lane, l[0]), l[2]); });
}

// mode: 0 arguments, 1 results; the list holds from, to and bytes of each.
void execute_call(Warp& w, const Instruction& i, Lanes lanes) {
  if (w.fragment().returns.size() > 60)
    w.fail(Fault::unsupported, "calls nest deeper than 60; recursion is not supported");
  if (lanes != w.lanes) w.fail(Fault::unsupported, "a call under a guard that differs between lanes");
  copy_locals(w, i.list, i.mode[0], lanes);
  w.call(i);
}

void execute_return(Warp& w, const Instruction&, Lanes lanes) {
  if (!w.fragment().returns.empty()) {
    const Instruction& call = w.grid().kernel.code[w.fragment().returns.back() - 1];
    copy_locals(w, call.list + 3u * call.mode[0], call.mode[1], lanes);
  }
  w.leave(lanes);
}

std::string text_at(Warp& w, uint64_t address, int lane) {
  std::string text;
  for (;; ++address) {
    Cta* owner;
    uint32_t offset;
    char c = static_cast<char>(*w.place(address, 1, Space::generic, lane, owner, offset));
    if (c == 0 || text.size() > 4096) return text;
    text += c;
  }
}

template <class T>
T argument_at(Warp& w, uint64_t& address, int lane) {
  address = (address + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  Cta* owner;
  uint32_t offset;
  T value;
  std::memcpy(&value, w.place(address, sizeof(T), Space::generic, lane, owner, offset), sizeof(T));
  address += sizeof(T);
  return value;
}

// One lane's printf. The arguments lie one behind another, each at a multiple of its size (CUDA C++
// Programming Guide, "Formatted Output"; floats come as doubles).
std::string formatted(Warp& w, const std::string& format, uint64_t arguments, int lane) {
  std::string out;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    size_t end = format.find_first_of("diouxXeEfFgGaAcsp%", at + 1);
    if (end == std::string::npos) return out + format.substr(at);
    std::string spec;
    bool wide = false;
    for (char c : format.substr(at, end - at)) {
      if (c == 'l' || c == 'z' || c == 'j' || c == 't')
        wide = true;
      else if (c == '*')
        spec += std::to_string(argument_at<int32_t>(w, arguments, lane));
      else if (c != 'h')
        spec += c;
    }
    const char kind = format[end];
    at = end + 1;
    spec += kind;
    switch (kind) {
      case '%':
        out += '%';
        break;
      case 'd':
      case 'i':
        out += wide ? fmt::sprintf(spec, argument_at<int64_t>(w, arguments, lane))
                    : fmt::sprintf(spec, argument_at<int32_t>(w, arguments, lane));
        break;
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        out += wide ? fmt::sprintf(spec, argument_at<uint64_t>(w, arguments, lane))
                    : fmt::sprintf(spec, argument_at<uint32_t>(w, arguments, lane));
        break;
      case 'c':
        out += static_cast<char>(argument_at<int32_t>(w, arguments, lane));
        break;
      case 's':
        out += fmt::sprintf(spec, text_at(w, argument_at<uint64_t>(w, arguments, lane), lane));
        break;
      case 'p':
        out += fmt::format("{:#x}", argument_at<uint64_t>(w, arguments, lane));
        break;
      default:
        out += fmt::sprintf(spec, argument_at<double>(w, arguments, lane));
    }
  }
  return out;
}

template <class T>
T parameter(Warp& w, const Instruction& i, uint32_t n, int lane) {
  T value;
  std::memcpy(&value, local_of(w, lane, w.grid().kernel.lists[i.list + 3 * n]), sizeof(T));
  return value;
}

void execute_vprintf(Warp& w, const Instruction& i, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    std::string text = formatted(w, text_at(w, parameter<uint64_t>(w, i, 0, lane), lane),
                                 parameter<uint64_t>(w, i, 1, lane), lane);
    if (w.grid().options.print)
      w.grid().options.print(text);
    else
      fmt::print("{}", text);
  });
}

void execute_assertfail(Warp& w, const Instruction& i, Lanes lanes) {
  const int lane = __builtin_ctz(lanes);
  w.fail(Fault::trap,
         fmt::format(
             "assertion '{}' failed in {} at {}:{}", text_at(w, parameter<uint64_t>(w, i, 0, lane), lane),
             text_at(w, parameter<uint64_t>(w, i, 3, lane), lane),
             text_at(w, parameter<uint64_t>(w, i, 1, lane), lane), parameter<uint32_t>(w, i, 2, lane)),
         lane);
}

void decode_call(Decode& d) {
  d.take("uni");
  d.done();
  const ptx::Operand *results = nullptr, *arguments = nullptr;
  size_t at = 0;
  if (d.operand(0).kind == ptx::Operand::Kind::list) results = &d.operand(at++);
  const ptx::Operand& callee = d.operand(at++);
  if (at < d.count() && d.operand(at).kind == ptx::Operand::Kind::list) arguments = &d.operand(at++);
  if (callee.kind != ptx::Operand::Kind::name || callee.text.starts_with("%"))
    d.refuse("calls through a register are not supported");
  if (callee.text == "vprintf")
    d.out.execute = execute_vprintf;
  else if (callee.text == "__assertfail")
    d.out.execute = execute_assertfail;
  else
    d.out.execute = execute_call;
  d.decoder.add_call(d, callee, results, arguments);
}

void decode_bra(Decode& d) {
  d.take("uni");
  d.done();
  d.expect(1, 1);
  d.out.target = d.label(d.operand(0));
  d.out.execute = execute_bra;
}

void decode_brx(Decode& d) {
  d.take_any({"idx", "uni"});
  d.done();
  d.expect(2, 2);
  d.out.r[0] = d.source(0, Type::u32);
  for (uint32_t target : d.decoder.branch_targets(d.operand(1).text, d.scope)) d.list(target);
  d.out.execute = execute_brx;
}

// setmaxnreg: immediate is the new count, mode[0] whether it rises.
void execute_setmaxnreg(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  const auto wanted = static_cast<uint32_t>(i.immediate);
  if (i.mode[0] ? wanted < w.registers_each : wanted > w.registers_each)
    w.fail(Fault::register_budget, fmt::format("setmaxnreg.{} to {} registers, but the warp has {}",
                                               i.mode[0] ? "inc" : "dec", wanted, w.registers_each));
  const int64_t more = (static_cast<int64_t>(wanted) - w.registers_each) * 32;
  if (more > w.cta.register_pool) return w.retry(Wait::registers);
  w.cta.register_pool -= more;
  w.registers_each = wanted;
  w.cluster().changed();
}

void decode_setmaxnreg(Decode& d) {
  d.out.mode[0] = d.take_one({"inc", "dec"}) == "inc";
  d.take_any({"sync", "aligned", "u32"});
  d.done();
  d.out.immediate = d.immediate(0);
  if (d.out.immediate < 24 || d.out.immediate > 256 || d.out.immediate % 8)
    d.refuse(fmt::format("{} registers: setmaxnreg takes multiples of 8 from 24 to 256", d.out.immediate));
  d.out.execute = execute_setmaxnreg;
}

template <Handler handler>
void decode_plain(Decode& d) {
  d.out.execute = handler;
}

}  // namespace

bool is_branch(const Instruction& i) { return i.execute == execute_bra; }
bool is_branch_table(const Instruction& i) { return i.execute == execute_brx; }
bool ends_thread(const Instruction& i) {
  return i.execute == execute_return || i.execute == execute_exit || i.execute == execute_trap;
}

void add_control(DecodeTable& t) {
  t["bra"] = decode_bra;
  t["brx"] = decode_brx;
  t["call"] = decode_call;
  t["ret"] = decode_plain<execute_return>;
  t["exit"] = decode_plain<execute_exit>;
  t["trap"] = decode_plain<execute_trap>;
  t["brkpt"] = decode_plain<execute_nothing>;
  t["pmevent"] = decode_plain<execute_nothing>;
  t["nanosleep"] = decode_plain<execute_nanosleep>;
  t["griddepcontrol"] = decode_plain<execute_nothing>;
  t["setmaxnreg"] = decode_setmaxnreg;
}

}  // namespace ptxbuilder::runtime::emulator
