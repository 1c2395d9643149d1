// Executes control flow, calls, and instructions that affect an entire thread (PTX ISA, "Control Flow
// Instructions", "Miscellaneous Instructions").
#include <fmt/format.h>
#include <fmt/printf.h>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct Branch {
  uint32_t target;
};

void execute_bra(Warp& w, const Branch& x, Lanes lanes) { w.branch(x.target, lanes); }

struct BranchTable {
  Register index;
  uint32_t first, size;  // range in Kernel::targets
};

// Executes brx.idx. Lanes with the same target branch together; the other lanes execute the instruction
// again.
void execute_brx(Warp& w, const BranchTable& x, Lanes lanes) {
  const uint32_t* index = w.at<uint32_t>(x.index);
  const uint32_t first = index[__builtin_ctz(lanes)];
  if (first >= x.size)
    w.fail(Fault::operand, fmt::format("the index is {}, but the table has {} targets", first, x.size),
           __builtin_ctz(lanes));
  Lanes same = 0;
  for_lanes(lanes, [&](int k) { same |= static_cast<Lanes>(index[k] == first) << k; });
  if (same != w.lanes) w.pc = w.here();
  w.branch(w.grid().kernel.targets[x.first + first], same);
}

// griddepcontrol.wait: after it, the previous launch has ended and all its writes are visible.
void execute_launch_wait(Warp& w, Lanes) {
  w.causality.learn(prior_launch, 1);
  w.know_ended_launches();
}

void execute_exit(Warp& w, Lanes lanes) { w.exit(lanes); }
void execute_trap(Warp& w, Lanes lanes) { w.fail(Fault::trap, "the kernel trapped", __builtin_ctz(lanes)); }
void execute_nanosleep(Warp& w, Lanes) { w.pause(Wait::sleep); }

struct CallOperands {
  uint32_t call;  // index in Kernel::calls

  const Call& of(const Warp& w) const { return w.grid().kernel.calls[call]; }
};

std::byte* place_of(Warp& w, const CallValue& v, int lane) {
  return v.r == no_register ? w.local(w.frame(lane) + v.offset, lane)
                            : w.at<std::byte>(v.r) + static_cast<ptrdiff_t>(lane) * v.bytes;
}

// Stores the values that a call or a return passes while the frames change.
class Passed {
 public:
  Passed(Warp& w, const std::vector<CallValue>& from, Lanes lanes) {
    for_lanes(lanes, [&](int lane) {
      for (const CallValue& v : from) {
        const std::byte* at = place_of(w, v, lane);
        bytes_.insert(bytes_.end(), at, at + v.bytes);
      }
    });
  }
  void put(Warp& w, const std::vector<CallValue>& to, Lanes lanes) const {
    const std::byte* from = bytes_.data();
    for_lanes(lanes, [&](int lane) {
      for (const CallValue& v : to) {
        std::copy_n(from, v.bytes, place_of(w, v, lane));
        from += v.bytes;
      }
    });
  }

 private:
  std::vector<std::byte> bytes_;
};

void enter(Warp& w, const Call& call, uint32_t routine, Lanes lanes) {
  const Passed arguments(w, call.arguments, lanes);
  w.call(routine, lanes);
  arguments.put(w, w.grid().kernel.routines[routine].parameters, lanes);
}

void execute_call(Warp& w, const CallOperands& x, Lanes lanes) { enter(w, x.of(w), x.of(w).routine, lanes); }

void check_passed(Warp& w, const char* what, const std::vector<CallValue>& given,
                  const std::vector<CallValue>& taken, const std::string& name, int lane) {
  bool alike = given.size() == taken.size();
  for (size_t k = 0; alike && k < given.size(); ++k) alike = given[k].bytes == taken[k].bytes;
  if (!alike)
    w.fail(
        Fault::operand,
        fmt::format("the {} of this call are not those of {}, whose address the register holds", what, name),
        lane);
}

// Executes a call through an address. Lanes that call the same function do so together; the other lanes
// execute the instruction again.
void execute_call_by_address(Warp& w, const CallOperands& x, Lanes lanes) {
  const Kernel& kernel = w.grid().kernel;
  const Call& call = x.of(w);
  const int lane = __builtin_ctz(lanes);
  const uint64_t* target = w.at<uint64_t>(call.target);
  const auto found = kernel.by_address.find(target[lane]);
  if (found == kernel.by_address.end())
    w.fail(Fault::operand, fmt::format("{:#x} is not the address of a function", target[lane]), lane);
  const Routine& routine = kernel.routines[found->second];
  check_passed(w, "arguments", call.arguments, routine.parameters, routine.name, lane);
  check_passed(w, "results", call.results, routine.results, routine.name, lane);
  Lanes same = 0;
  for_lanes(lanes, [&](int k) { same |= static_cast<Lanes>(target[k] == target[lane]) << k; });
  if (same != lanes) w.split_off(lanes & ~same, w.here());
  enter(w, call, found->second, same);
}

void execute_return(Warp& w, Lanes lanes) {
  if (w.fragment().depth == 0) return w.leave(lanes);
  // Lanes that were called from the same place return together.
  auto frame = [&](int lane) -> const LaneFrame& { return w.caller(lane); };
  const uint32_t back = frame(__builtin_ctz(lanes)).pc, routine = frame(__builtin_ctz(lanes)).routine;
  Lanes same = 0;
  for_lanes(lanes, [&](int k) { same |= static_cast<Lanes>(frame(k).pc == back) << k; });
  if (same != lanes) w.split_off(lanes & ~same, w.here());
  const Kernel& kernel = w.grid().kernel;
  const Instruction& from = kernel.code[back - 1];
  const CallOperands* call = from.operands<execute_call>();
  if (!call) call = from.operands<execute_call_by_address>();
  const Passed results(w, kernel.routines[routine].results, same);
  w.leave(same);
  results.put(w, call->of(w).results, same);
}

struct Alloca {
  Register ptr, size;
  uint32_t align;
  uint8_t bytes;  // size of ptr and size
};

uint64_t unsigned_at(Warp& w, Register r, uint8_t bytes, int lane) {
  uint64_t value = 0;
  std::memcpy(&value, w.at<std::byte>(r) + static_cast<ptrdiff_t>(lane) * bytes, bytes);
  return value;
}

void set_unsigned(Warp& w, Register r, uint8_t bytes, int lane, uint64_t value) {
  std::memcpy(w.at<std::byte>(r) + static_cast<ptrdiff_t>(lane) * bytes, &value, bytes);
}

// Allocates memory at the end of the frame until the function returns.
void execute_alloca(Warp& w, const Alloca& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t size = std::min(unsigned_at(w, x.size, x.bytes, lane), uint64_t{1} << 32),
                   at = align_up(w.top(lane), x.align);
    w.reach(at + size, lane);
    set_unsigned(w, x.ptr, x.bytes, lane, at);
  });
}

void decode_alloca(Decode& d) {
  const Type type = d.type();
  const int64_t align = d.count() == 3 ? d.immediate(2) : 8;
  d.needs_all();
  if (align > 1024) d.refuse(fmt::format("the alignment {} is more than 1024", align));
  d.run<execute_alloca>({d.destination(0, type), d.source(1, type), static_cast<uint32_t>(align),
                         static_cast<uint8_t>(bytes(type))});
}

// stacksave and stackrestore: the end of the part of the lane's local memory that is in use.
struct StackEnd {
  Register r;
  uint8_t bytes;
};

void execute_stacksave(Warp& w, const StackEnd& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) { set_unsigned(w, x.r, x.bytes, lane, w.top(lane)); });
}

void execute_stackrestore(Warp& w, const StackEnd& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t end = unsigned_at(w, x.r, x.bytes, lane);
    if (end < w.frame(lane) || end > w.top(lane))
      w.fail(Fault::operand, fmt::format("{:#x} is not a value that stacksave returned", end), lane);
    w.reach(end, lane);
  });
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

// Checks the width and precision of a conversion, so that one lane's output cannot exhaust the host's memory.
void check_width(Warp& w, std::string_view spec, int lane) {
  constexpr uint64_t kMost = 4096;
  uint64_t number = 0;
  for (const char c : spec) {
    number = c >= '0' && c <= '9'
                 ? std::min<uint64_t>(10 * number + static_cast<uint64_t>(c - '0'), kMost + 1)
                 : 0;
    if (number > kMost)
      w.fail(Fault::unsupported,
             fmt::format(
                 "printf: '{}' needs more than the {} characters that the emulator prints for one conversion",
                 spec, kMost),
             lane);
  }
}

// Returns the output of one lane's printf. The arguments are stored one after the other, each at a multiple
// of its size (CUDA C++ Programming Guide, "Formatted Output"; floats are passed as doubles).
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
    check_width(w, spec, lane);
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
T argument(Warp& w, const CallOperands& x, size_t n, int lane) {
  T value;
  std::memcpy(&value, place_of(w, x.of(w).arguments[n], lane), sizeof(T));
  return value;
}

void execute_vprintf(Warp& w, const CallOperands& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    std::string text = formatted(w, text_at(w, argument<uint64_t>(w, x, 0, lane), lane),
                                 argument<uint64_t>(w, x, 1, lane), lane);
    if (w.grid().options.print)
      w.grid().options.print(text);
    else
      fmt::print("{}", text);
  });
}

void execute_assertfail(Warp& w, const CallOperands& x, Lanes lanes) {
  const int lane = __builtin_ctz(lanes);
  w.fail(
      Fault::trap,
      fmt::format("assertion '{}' failed in {} at {}:{}", text_at(w, argument<uint64_t>(w, x, 0, lane), lane),
                  text_at(w, argument<uint64_t>(w, x, 3, lane), lane),
                  text_at(w, argument<uint64_t>(w, x, 1, lane), lane), argument<uint32_t>(w, x, 2, lane)),
      lane);
}

// Executes malloc. Blocks of the device heap exist for as long as the device exists, so free does nothing.
void execute_malloc(Warp& w, const CallOperands& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    constexpr uint64_t kHeap = uint64_t{1} << 23;  // the default of cudaLimitMallocHeapSize
    const auto size = argument<uint64_t>(w, x, 0, lane);
    const uint64_t at =
        size == 0 || size > kHeap ? 0 : w.grid().memory.allocate(size, "malloc", 256, false, w.grid().device);
    std::memcpy(place_of(w, x.of(w).results[0], lane), &at, sizeof at);
  });
}

void decode_call(Decode& d) {
  const ptx_text::Operand *results = nullptr, *arguments = nullptr;
  size_t at = 0;
  if (d.operand(0).kind == ptx_text::Operand::Kind::list) results = &d.operand(at++);
  const ptx_text::Operand& callee = d.operand(at++);
  if (at < d.count() && d.operand(at).kind == ptx_text::Operand::Kind::list) arguments = &d.operand(at++);
  if (d.register_bytes(callee) != 0)
    return d.run<execute_call_by_address>({d.decoder.add_call_by_address(d, callee, results, arguments)});
  const CallOperands x{d.decoder.add_call(d, callee, results, arguments)};
  const std::string name = d.decoder.provided_by_emulator(callee.text);
  if (name == "vprintf") {
    d.turn(Turn::waits);
    d.run<execute_vprintf>(x);
  } else if (name == "__assertfail") {
    d.run<execute_assertfail>(x);
  } else if (name == "malloc") {
    d.decoder.communicates();  // all CTAs use the same heap
    d.decoder.allocates();
    d.turn(Turn::waits);
    d.run<execute_malloc>(x);
  } else if (name == "free") {
    d.run<execute_nothing>();
  } else {
    d.run<execute_call>(x);
  }
}

void decode_bra(Decode& d) {
  const Branch x{d.label(d.operand(0))};
  d.jump = {{x.target}, true};
  d.run<execute_bra>(x);
}

void decode_brx(Decode& d) {
  const Register index = d.source(0, Type::u32);
  d.jump = {d.decoder.branch_targets(d.operand(1).text, d.scope), true};
  d.run<execute_brx>(
      {index, d.decoder.add_targets(d.jump.targets), static_cast<uint32_t>(d.jump.targets.size())});
}

struct SetMaxRegisters {
  uint32_t count;  // registers per thread
  bool inc;
};

void execute_setmaxnreg(Warp& w, const SetMaxRegisters& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  if (x.inc ? x.count < w.register_share.each : x.count > w.register_share.each)
    w.fail(Fault::register_budget, fmt::format("setmaxnreg.{} to {} registers, but the warp has {}",
                                               x.inc ? "inc" : "dec", x.count, w.register_share.each));
  const int64_t more = (static_cast<int64_t>(x.count) - w.register_share.each) * 32;
  if (more > w.cta.register_pool) {
    w.fragment().object = x.count;
    return w.retry(Wait::registers);
  }
  w.cta.register_pool -= more;
  w.register_share.each = x.count;
  ++w.register_share.changes;
  w.register_share.changed_at = w.here();
  w.cluster().changed();
}

void decode_setmaxnreg(Decode& d) {
  const bool inc = d.one_of({"inc", "dec"}) == "inc";
  const int64_t count = d.immediate(0);
  d.decoder.asks_registers(static_cast<uint32_t>(count));
  d.run<execute_setmaxnreg>({static_cast<uint32_t>(count), inc});
}

template <auto handler>
void decode_plain(Decode& d) {
  d.run<handler>();
}

// Decodes an instruction after which the thread or the function ends.
template <auto handler>
void decode_end(Decode& d) {
  d.jump.leaves = true;
  d.run<handler>();
}

}  // namespace

void add_control(DecodeTable& t) {
  t["bra"] = decode_bra;
  t["brx"] = decode_brx;
  t["call"] = decode_call;
  t["alloca"] = decode_alloca;
  t["stacksave"] = [](Decode& d) {
    const Type type = d.type();
    d.run<execute_stacksave>({d.destination(0, type), static_cast<uint8_t>(bytes(type))});
  };
  t["stackrestore"] = [](Decode& d) {
    const Type type = d.type();
    d.run<execute_stackrestore>({d.source(0, type), static_cast<uint8_t>(bytes(type))});
  };
  t["ret"] = decode_end<execute_return>;
  t["exit"] = decode_end<execute_exit>;
  t["trap"] = decode_end<execute_trap>;
  t["brkpt"] = decode_plain<execute_nothing>;
  t["pmevent"] = decode_plain<execute_nothing>;
  t["nanosleep"] = decode_plain<execute_nanosleep>;
  t["griddepcontrol"] = [](Decode& d) {
    d.has("wait") ? d.run<execute_launch_wait>() : d.run<execute_nothing>();
  };
  t["setmaxnreg"] = decode_setmaxnreg;
}

}  // namespace ptxbuilder::runtime::emulator
