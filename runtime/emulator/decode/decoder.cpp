#include "runtime/emulator/decode/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <functional>
#include <set>

#include "ptxbuilder/demangle.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

constexpr std::ptrdiff_t kMostModifiers = 64;
using WidthName = std::pair<uint8_t, std::string_view>;
constexpr WidthName register_types[] = {{1, ".b8"}, {2, ".b16"}, {4, ".b32"}, {8, ".b64"}, {16, ".b128"}};

void unsupported(Warp& w, Lanes) {
  w.fail(Fault::unsupported, fmt::format("this cannot be executed: {}", w.grid().kernel.texts[w.here()]));
}

}  // namespace

Decoder::Decoder(const ptx_text::Module& module, const std::string& kernel, GlobalMemory& memory,
                 uint32_t device)
    : module_(module), memory_(memory), device_(device) {
  kernel_.name = kernel;
  for (const ptx_text::Statement& s : module.statements)
    if (s.kind == ptx_text::Statement::Kind::directive && s.directive.tokens[0] == ".target")
      is_blackwell_ = s.directive.tokens[1].starts_with("sm_100");
  next_register_ = 128;
  scopes_.push_back({});
}

// --- functions ---

void Decoder::kernel_directives(const ptx_text::Function& f) {
  auto number = [](const ptx_text::Directive& d, size_t i) {
    return 2 * i + 1 < d.tokens.size() ? to_number(d.tokens[2 * i + 1]) : 1;
  };
  for (const ptx_text::Directive& d : f.directives) {
    const std::string& name = d.tokens[0];
    if (name == ".maxntid" || name == ".reqntid") {
      auto extent = [&](size_t i) { return std::min(number(d, i), 1024u); };
      kernel_.threads_most = extent(0) * extent(1) * extent(2);
    }
    if (name == ".maxnreg") kernel_.registers_most = number(d, 0);
    if (name == ".minnctapersm") kernel_.ctas_least = number(d, 0);
    if (name == ".reqnctapercluster") kernel_.required_cluster = {number(d, 0), number(d, 1), number(d, 2)};
  }
  for (const ptx_text::Declaration& d : f.parameters)
    for (const ptx_text::Declarator& name : d.names) declare_parameter(d, name);
}

void Decoder::function(const ptx_text::Function& f) {
  const size_t number = kernel_.routines.size();
  kernel_.routines.push_back({.name = f.name, .entry = static_cast<uint32_t>(placed_.size())});
  const uint32_t frame = kernel_.frames_apart() && number > 0 ? 0 : kernel_.local_bytes;
  kernel_.local_bytes = frame;
  scopes_.push_back({});
  const size_t scope = scopes_.size() - 1;
  std::vector<CallValue> results, parameters;
  if (f.entry) {
    kernel_directives(f);
  } else {
    for (auto [list, values] : {std::pair{&f.results, &results}, std::pair{&f.parameters, &parameters}})
      for (const ptx_text::Declaration& d : *list) {
        declare(d, scope);
        for (const ptx_text::Declarator& name : d.names) {
          const Symbol& s = scopes_[scope].symbols.at(name.name);
          if (s.predicate) ptx_text::fail(name.at, fmt::format("the parameter {} is a predicate", name.name));
          values->push_back(s.kind == Symbol::Kind::reg
                                ? CallValue{s.at, 0, s.bytes}
                                : CallValue{no_register, static_cast<uint32_t>(s.value), s.size});
        }
      }
  }
  walk(f.body, scope);
  // A thread that reaches the end of the body returns.
  static const ptx_text::Instruction ret{std::nullopt, "ret", {}};
  placed_.push_back({&ret, scope});
  kernel_.lines.push_back(source_);
  Routine& routine = kernel_.routines[number];
  routine.end = static_cast<uint32_t>(placed_.size());
  routine.results = std::move(results);
  routine.parameters = std::move(parameters);
  routine.frame_bytes = kernel_.local_bytes - frame;
}

void Decoder::walk(const std::vector<ptx_text::Statement>& statements, size_t scope) {
  std::string last_label;
  for (const ptx_text::Statement& s : statements) {
    switch (s.kind) {
      case ptx_text::Statement::Kind::instruction:
        source_.ptx = s.at.line;
        kernel_.lines.push_back(source_);
        placed_.push_back({with_vectors(s.instruction, scope), scope});
        break;
      case ptx_text::Statement::Kind::label:
        if (!scopes_[scope].labels.try_emplace(s.label, static_cast<uint32_t>(placed_.size())).second)
          ptx_text::fail(s.at, fmt::format("the label {} is declared twice", s.label));
        last_label = s.label;
        break;
      case ptx_text::Statement::Kind::declaration:
        declare(s.declaration, scope);
        break;
      case ptx_text::Statement::Kind::directive:
        directive(s.directive, scope, last_label);
        break;
      case ptx_text::Statement::Kind::block:
        scopes_.push_back({.parent = scope});
        walk(s.block, scopes_.size() - 1);
        break;
      default:
        break;
    }
  }
}

void Decoder::directive(const ptx_text::Directive& d, size_t scope, const std::string& last_label) {
  if (d.tokens[0] == ".loc") {
    const uint32_t line = to_number(d.tokens[2]);
    if (line == 0) return;  // code that the compiler generated has line 0
    source_.file = file_number(d.tokens[1]);
    source_.line = line;
    source_.call = inlined_call(d);
  } else if (d.tokens[0] == ".branchtargets") {
    for (size_t i = 1; i < d.tokens.size(); i += 2) scopes_[scope].tables[last_label].push_back(d.tokens[i]);
  }
}

uint16_t Decoder::file_number(const std::string& token) const {
  const auto file = file_numbers_.find(to_number(token));
  return file == file_numbers_.end() ? uint16_t{0xffff} : file->second;
}

// Returns the index of the call at which the code of a .loc was inlined, or -1. The line of the call may
// itself be inlined, as an earlier .loc specifies.
int32_t Decoder::inlined_call(const ptx_text::Directive& d) {
  auto place = [&](size_t first) {
    return std::tuple(to_number(d.tokens[first]), to_number(d.tokens[first + 1]),
                      to_number(d.tokens[first + 2]));
  };
  const auto word = std::ranges::find(d.tokens, "inlined_at");
  int32_t number = -1;
  if (word != d.tokens.end()) {
    const auto first = static_cast<size_t>(word - d.tokens.begin()) + 1;
    const auto caller = calls_of_places_.find(place(first));
    const InlinedCall call{file_number(d.tokens[first]), to_number(d.tokens[first + 1]),
                           caller == calls_of_places_.end() ? -1 : caller->second, called_function(d)};
    std::vector<InlinedCall>& all = kernel_.inlined_calls;
    const auto [known, is_new] =
        numbers_of_calls_.try_emplace(std::tuple(call.file, call.line, call.call, call.function), all.size());
    if (is_new) all.push_back(call);
    number = static_cast<int32_t>(known->second);
  }
  calls_of_places_[place(1)] = number;
  return number;
}

// Returns the name of the function that a .loc names through a label of .debug_str; returns an empty string
// if .debug_str does not contain the name.
std::string Decoder::called_function(const ptx_text::Directive& d) const {
  const auto word = std::ranges::find(d.tokens, "function_name");
  if (word == d.tokens.end()) return {};
  const auto first = static_cast<size_t>(word - d.tokens.begin()) + 1;
  const auto at = debug_labels_.find(d.tokens[first]);
  if (at == debug_labels_.end()) return {};
  size_t from = at->second;
  if (first + 2 < d.tokens.size() && d.tokens[first + 1] == "+") from += to_number(d.tokens[first + 2]);
  if (from >= debug_strings_.size()) return {};
  return demangled(debug_strings_.c_str() + from);
}

void Decoder::take_debug_strings(const ptx_text::Directive& section) {
  const std::vector<std::string>& tokens = section.tokens;
  if (tokens.size() < 2 || tokens[1] != ".debug_str") return;
  for (size_t i = 2; i < tokens.size(); ++i) {
    const std::string& word = tokens[i];
    if (word.ends_with(':') && word.size() > 1)
      debug_labels_[word.substr(0, word.size() - 1)] = debug_strings_.size();
    else if (i + 1 < tokens.size() && tokens[i + 1] == ":")
      debug_labels_[word] = debug_strings_.size();
    else if (std::isdigit(static_cast<unsigned char>(word[0])))
      debug_strings_ += static_cast<char>(to_number(word));
  }
}

// Returns the instruction with its vector registers expanded: %v becomes {%v.x, %v.y}.
const ptx_text::Instruction* Decoder::with_vectors(const ptx_text::Instruction& text, size_t scope) {
  if (!has_vectors_) return &text;
  auto parts = [&](const ptx_text::Operand& o) -> const std::vector<std::string>* {
    if (o.kind != ptx_text::Operand::Kind::name) return nullptr;
    for (size_t s = scope;; s = scopes_[s].parent) {
      if (auto at = scopes_[s].vectors.find(o.text); at != scopes_[s].vectors.end()) return &at->second;
      if (s == 0) return nullptr;
    }
  };
  if (std::ranges::none_of(text.operands, parts)) return &text;
  ptx_text::Instruction& spelled = rewritten_.emplace_back(text);
  for (ptx_text::Operand& o : spelled.operands)
    if (const auto* names = parts(o)) {
      o.kind = ptx_text::Operand::Kind::vector;
      for (const std::string& name : *names)
        o.parts.push_back({ptx_text::Operand::Kind::name, name, {}, o.at});
    }
  return &spelled;
}

std::vector<uint32_t> Decoder::branch_targets(const std::string& table, size_t scope) const {
  for (size_t s = scope;; s = scopes_[s].parent) {
    if (auto t = scopes_[s].tables.find(table); t != scopes_[s].tables.end()) {
      std::vector<uint32_t> targets;
      for (const std::string& label : t->second) {
        auto at = find_label(label, scope);
        if (!at) throw Refused{fmt::format("there is no label {}", label)};
        targets.push_back(*at);
      }
      return targets;
    }
    if (s == 0) throw Refused{fmt::format("there is no .branchtargets {}", table)};
  }
}

uint32_t Decoder::add_targets(const std::vector<uint32_t>& targets) {
  const auto first = static_cast<uint32_t>(kernel_.targets.size());
  kernel_.targets.insert(kernel_.targets.end(), targets.begin(), targets.end());
  return first;
}

Kernel Decoder::run() {
  validate(module_);
  index_functions();
  const auto entry = functions_.find(kernel_.name);
  if (entry == functions_.end() || !entry->second->entry || !entry->second->has_body)
    throw Error(fmt::format("ptx: there is no .entry {}", kernel_.name));
  if (needs_frames()) kernel_.frame = place_register("the frame", {0, 8, false}).at;
  want(kernel_.name);
  variables();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const auto from = static_cast<uint32_t>(placed_.size());
    placed_registers_.clear();
    function(*wanted_[i]);
    // Dynamic shared memory follows all static shared memory, so its offset is known only after every body is
    // laid out: a function that is called later may still add static shared memory.
    const uint32_t end = align_up(kernel_.shared_bytes, kernel_.dynamic_align);
    if (i == 0) {
      for (uint32_t v : kernel_.dynamic) kernel_.shared[v].offset = end;
      for (Scope& scope : scopes_)
        for (auto& [name, symbol] : scope.symbols)
          if (symbol.kind == Symbol::Kind::address && symbol.space == Space::shared && symbol.size == 0)
            symbol.value = end;
      if (!kernel_.dynamic.empty()) kernel_.shared_bytes = end;
    } else if (!kernel_.dynamic.empty() && kernel_.shared_bytes > kernel_.shared[kernel_.dynamic[0]].offset) {
      throw Error(
          fmt::format("ptx function {}: static shared memory in a function that is called is not supported "
                      "together with dynamic",
                      wanted_[i]->name));
    }
    if (i == 0) kernel_local_ = kernel_.local_bytes;
    decode_all(from);
    kernel_.routines[i].registers = placed_registers_;
  }
  if (kernel_.frames_apart()) kernel_.local_bytes = kernel_local_;
  link_calls();
  for (const Routine& routine : kernel_.routines)
    find_reconvergence(kernel_, jumps_, routine.entry, routine.end);
  finish_registers();
  find_matrix_uses();
  number_registers();
  find_doubtful();
  find_guesses();
  kernel_.entry = kernel_.routines[0].entry;
  return std::move(kernel_);
}

void Decoder::decode_all(uint32_t from) {
  kernel_.code.resize(placed_.size());
  kernel_.texts.resize(placed_.size());
  kernel_.uses.resize(placed_.size());
  jumps_.resize(placed_.size());
  for (auto pc = from; pc < placed_.size(); ++pc) decode_one(pc);
}

void Decoder::decode_one(uint32_t pc) {
  const ptx_text::Instruction& text = *placed_[pc].text;
  Instruction& out = kernel_.code[pc];
  std::string spelled = ptx_text::print(text);
  kernel_.texts[pc] =
      spelled.size() > 200 ? spelled.substr(0, 80) + " ... " + spelled.substr(spelled.size() - 60) : spelled;
  try {
    if (text.guard) {
      const Symbol* p = find(text.guard->predicate, placed_[pc].scope);
      if (!p || !p->predicate)
        throw Refused{fmt::format("the guard {} is not a predicate register", text.guard->predicate)};
      out.guard = p->at;
      out.guard_negated = text.guard->negated;
    }
    const isa::Recognised row = recognise(text, placed_[pc].scope);
    Decode decode(*this, text, row, out, placed_[pc].scope);
    const DecodeTable& table = decode_table();
    const std::string_view name = isa::KeyParts(row.row->name).mnemonic;
    auto found = table.end();
    for (size_t length = name.size(); found == table.end() && length != std::string_view::npos && length > 0;
         length = name.substr(0, length).find_last_of('.'))
      found = table.find(name.substr(0, length));
    if (found == table.end()) throw Refused{"the emulator does not know this instruction"};
    found->second(decode);
    if (!out.execute) throw Refused{"its decoder names no handler"};  // the decoder has a bug
    if (decode.writes.empty()) decode.needs_all();
    kernel_.uses[pc] = {decode.flow,
                        decode.decides,
                        decode.flow_bytes,
                        std::move(decode.needed),
                        std::move(decode.reads),
                        std::move(decode.passed),
                        std::move(decode.writes)};
    jumps_[pc] = std::move(decode.jump);
    matrix_registers_.insert(matrix_registers_.end(), decode.held.begin(), decode.held.end());
  } catch (const Refused& refused) {
    const Register guard = out.guard;
    const bool negated = out.guard_negated;
    out = Instruction{};
    out.guard = guard;
    out.guard_negated = negated;
    out.set<unsupported>();
    kernel_.refused[pc] = refused.why;
    kernel_.texts[pc] += fmt::format("  [{}]", refused.why);
  }
}

// Returns the manual's row for an instruction. Throws Refused if the manual does not contain the instruction,
// and an Error if the target does not support it. ptxas accepts most words of a mnemonic in any order, so a
// mnemonic matches a row that has the same words in another order.
isa::Recognised Decoder::recognise(const ptx_text::Instruction& text, size_t scope) {
  const isa::RegisterTypes types = [&](std::string_view name) -> std::string_view {
    const Symbol* symbol = find(std::string(name), scope);
    if (!symbol || symbol->kind != Symbol::Kind::reg) return {};
    if (symbol->predicate) return ".pred";
    return std::ranges::find(register_types, symbol->bytes, &WidthName::first)->second;
  };
  isa::Recognised row = isa::recognise(text, types);
  const ptx_text::Instruction* read = &text;
  if (!row) {
    if (isa::forms_of(text.opcode.substr(0, text.opcode.find('.'))).empty())
      throw Refused{"the emulator does not know this instruction"};
    const auto modifiers = std::ranges::count(text.opcode, '.');
    if (modifiers > kMostModifiers)
      throw Refused{
          fmt::format("it has {} modifiers, but no instruction has more than {}", modifiers, kMostModifiers)};
    const auto [near, fresh] = nearest_.try_emplace(text.opcode);
    if (fresh) near->second = isa::nearest(text.opcode);
    if (near->second.has_same_words) {
      read = &rewritten_.emplace_back(text);
      rewritten_.back().opcode = near->second.mnemonic;
      row = isa::recognise(*read, types);
    }
  }
  if (!row) throw Refused{isa::why_unknown(*read)};
  if (!row.row->targets.has(is_blackwell_ ? isa::Sm::sm_100a : isa::Sm::sm_90a))
    ptx_text::fail(text.operands.empty() ? ptx_text::Position{} : text.operands[0].at,
                   fmt::format("{}: it needs {}", text.opcode, row.row->targets.text()));
  return row;
}

void Decoder::finish_registers() {
  kernel_.register_bytes = align_up(next_register_, 64);
  kernel_.constants.resize(align_up(constant_bytes_, 64));
  for (const auto& [key, at] : constants_) {
    auto [value, width] = key;
    std::byte* to = kernel_.constants.data() + kernel_.constants.size() + at.at;
    if (width == 0) {
      uint32_t mask = value ? all_lanes : 0;
      std::memcpy(to, &mask, 4);
    } else {
      for (int lane = 0; lane < 32; ++lane)
        std::memcpy(to + static_cast<size_t>(lane) * width, &value, std::min(width, 8u));
    }
  }
}

// Finds the instructions that access registers that a wgmma or tcgen05.ld may still be using, so that only
// these instructions are checked at run time.
void Decoder::find_matrix_uses() {
  std::sort(matrix_registers_.begin(), matrix_registers_.end());
  auto held = [&](Register r) {
    return std::binary_search(matrix_registers_.begin(), matrix_registers_.end(), r);
  };
  for (uint32_t pc = 0; pc < kernel_.code.size(); ++pc) {
    const RegisterUse& named = kernel_.uses[pc];
    if (named.flow == Flow::accumulates) continue;
    MatrixUse use;
    for (const auto* list : {&named.needed, &named.reads, &named.passed})
      for (Register r : *list)
        if (held(r)) use.reads.push_back(r);
    for (Register r : named.writes)
      if (held(r)) use.writes.push_back(r);
    if (use.reads.empty() && use.writes.empty()) continue;
    kernel_.code[pc].touches_matrix = true;
    kernel_.matrix_uses[pc] = std::move(use);
  }
}

// --- symbols ---

const Decoder::Symbol* Decoder::find(const std::string& name, size_t scope) {
  for (size_t s = scope;; s = scopes_[s].parent) {
    if (auto at = scopes_[s].symbols.find(name); at != scopes_[s].symbols.end()) return &at->second;
    if (const Symbol* symbol = find_in_range(name, scopes_[s])) return symbol;
    if (s == 0) return nullptr;
  }
}

// Finds a register that a range declares: %r17 is register 17 of the range %r<20>, or register 7 of %r1<8>.
const Decoder::Symbol* Decoder::find_in_range(const std::string& name, Scope& scope) {
  if (scope.ranges.empty()) return nullptr;
  size_t digits = name.find_last_not_of("0123456789") + 1;
  for (; digits < name.size(); ++digits) {
    const std::string_view number = std::string_view(name).substr(digits);
    if (number.size() > 10 || (number[0] == '0' && number.size() > 1)) continue;
    auto range = scope.ranges.find(name.substr(0, digits));
    uint64_t value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    if (range != scope.ranges.end() && value < range->second.count)
      return &scope.symbols.emplace(name, place_register(name, range->second)).first->second;
  }
  return nullptr;
}

std::optional<uint32_t> Decoder::find_label(const std::string& name, size_t scope) const {
  for (size_t s = scope;; s = scopes_[s].parent) {
    if (auto at = scopes_[s].labels.find(name); at != scopes_[s].labels.end()) return at->second;
    if (s == 0) return std::nullopt;
  }
}

Register Decoder::constant(uint64_t value, uint32_t width) {
  if (width > 0 && width < 8) value &= (uint64_t{1} << (8 * width)) - 1;
  auto [at, fresh] = constants_.try_emplace({value, width}, no_register);
  if (fresh) at->second = allocate_constant(width);
  return at->second;
}

Register Decoder::allocate_constant(uint32_t width) {
  if (constant_bytes_ > most_registers)
    throw Error(
        fmt::format("ptx: the kernel {} has more constants than the emulator has room for", kernel_.name));
  constant_bytes_ += align_up(width == 0 ? 4 : width * 32, 32);
  return {-static_cast<int32_t>(constant_bytes_)};
}

Register Decoder::special(const SpecialRegister& which, uint32_t width) {
  if (which.name.starts_with("%reserved_smem_offset_") && !which.name.ends_with("_end") &&
      !which.name.ends_with("_cap"))
    kernel_.uses_reserved = true;
  for (const SpecialUse& use : kernel_.specials)
    if (use.special == &which && use.bytes == width) return use.at;
  kernel_.specials.push_back({&which, allocate_constant(width), width});
  return kernel_.specials.back().at;
}

}  // namespace ptxbuilder::runtime::emulator
