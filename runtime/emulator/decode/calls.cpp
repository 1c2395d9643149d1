// Decodes calls, and finds the functions that they reach: functions of the module, by name or address, and
// functions that the emulator provides.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

void Decoder::index_functions() {
  uint64_t address = 0;
  for (const ptx_text::Statement& s : module_.statements) {
    if (s.kind == ptx_text::Statement::Kind::directive && s.directive.tokens[0] == ".alias" &&
        s.directive.tokens.size() == 4)
      aliases_[s.directive.tokens[1]] = s.directive.tokens[3];
    if (s.kind != ptx_text::Statement::Kind::function) continue;
    const ptx_text::Function& f = s.function[0];
    const auto [at, fresh] = functions_.try_emplace(f.name, &f);
    if (fresh) addresses_[f.name] = address += 16;
    if (f.has_body) at->second = &f;
  }
}

// Returns the name of the function for which `name` is an .alias; if `name` is not an alias, returns `name`.
std::string Decoder::function_named(const std::string& name) const {
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? name : alias->second;
}

namespace {

// Returns the names of the functions that a body calls, and sets `allocates` if the body contains an alloca.
std::set<std::string> callees_of(const ptx_text::Function& f, bool& allocates) {
  std::set<std::string> callees;
  std::vector<const std::vector<ptx_text::Statement>*> bodies{&f.body};
  while (!bodies.empty()) {
    const auto& body = *bodies.back();
    bodies.pop_back();
    for (const ptx_text::Statement& s : body) {
      if (s.kind == ptx_text::Statement::Kind::block) bodies.push_back(&s.block);
      if (s.kind != ptx_text::Statement::Kind::instruction) continue;
      allocates |= s.instruction.opcode.starts_with("alloca");
      if (!s.instruction.opcode.starts_with("call")) continue;
      for (const ptx_text::Operand& o : s.instruction.operands)
        if (o.kind == ptx_text::Operand::Kind::name) {
          callees.insert(o.text);
          break;
        }
    }
  }
  return callees;
}

}  // namespace

// Returns whether any function may be recursive, is called through its address, or allocates memory on the
// stack.
bool Decoder::needs_frames() const {
  std::unordered_map<std::string, std::vector<std::string>> callers;
  std::unordered_map<std::string, size_t> left;  // callees that may be in a cycle
  bool needs = false;
  for (const auto& [name, f] : functions_)
    for (const std::string& text : callees_of(*f, needs)) {
      const std::string callee = function_named(text);
      needs |= !functions_.contains(callee);
      callers[callee].push_back(name);
      ++left[name];
    }
  if (needs) return true;
  std::vector<std::string> ended;
  for (const auto& [name, f] : functions_)
    if (left[name] == 0) ended.push_back(name);
  size_t done = 0;
  for (; !ended.empty(); ++done) {
    const std::string name = ended.back();
    ended.pop_back();
    for (const std::string& caller : callers[name])
      if (--left[caller] == 0) ended.push_back(caller);
  }
  return done < functions_.size();
}

// Returns the number of the function's routine, and creates the routine if needed.
uint32_t Decoder::want(const std::string& function) {
  const auto [at, fresh] = routine_numbers_.try_emplace(function, static_cast<uint32_t>(wanted_.size()));
  if (fresh) wanted_.push_back(functions_.at(function));
  return at->second;
}

std::optional<uint64_t> Decoder::function_address(const std::string& name) {
  const auto function = functions_.find(function_named(name));
  if (function == functions_.end() || !function->second->has_body || function->second->entry)
    return std::nullopt;
  const uint64_t address = addresses_.at(function->first);
  kernel_.by_address[address] = want(function->first);
  return address;
}

CallValue Decoder::passed_value(Decode& d, const ptx_text::Operand& o, const ptx_text::Declaration* taken,
                                bool writes) {
  const Symbol* symbol = o.kind == ptx_text::Operand::Kind::name ? find(o.text, d.scope) : nullptr;
  if (symbol && symbol->kind == Symbol::Kind::address && symbol->space == Space::local)
    return {no_register, static_cast<uint32_t>(symbol->value), symbol->size};
  if (symbol && symbol->kind == Symbol::Kind::reg && !symbol->predicate) {
    (writes ? d.writes : d.reads).push_back(symbol->at);
    return {symbol->at, 0, symbol->bytes};
  }
  Type type = Type::none;
  if (taken && !writes)
    for (const std::string& q : taken->qualifiers)
      if (auto named = type_named(std::string_view(q).substr(1)); named && q[0] == '.') type = *named;
  if (type == Type::none)
    throw Refused{
        fmt::format("the argument {} is neither a .param variable nor a register", ptx_text::print(o))};
  return {d.source(o, type), 0, static_cast<uint32_t>(bytes(type))};
}

std::vector<CallValue> Decoder::passed_values(Decode& d, const ptx_text::Operand* list,
                                              const std::vector<ptx_text::Declaration>* taken, bool writes) {
  std::vector<CallValue> values;
  for (size_t k = 0; list && k < list->parts.size(); ++k)
    values.push_back(
        passed_value(d, list->parts[k], taken && k < taken->size() ? &(*taken)[k] : nullptr, writes));
  return values;
}

namespace {

// The parameters and results of a function that the emulator provides, e.g. vprintf.
struct Provided {
  std::string_view name;
  std::vector<CallValue> arguments, results;
};

const Provided* provided(std::string_view name) {
  auto of = [](std::initializer_list<uint32_t> sizes) {
    std::vector<CallValue> values;
    for (uint32_t size : sizes) values.push_back({no_register, 0, size});
    return values;
  };
  static const std::vector<Provided> all = {{"vprintf", of({8, 8}), of({4})},
                                            {"__assertfail", of({8, 8, 4, 8, 8}), {}},
                                            {"malloc", of({8}), of({8})},
                                            {"free", of({8}), {}}};
  const auto at = std::ranges::find(all, name, &Provided::name);
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

std::string Decoder::provided_by_emulator(const std::string& text) const {
  const std::string name = function_named(text);
  const auto f = functions_.find(name);
  return f != functions_.end() && !f->second->has_body && provided(name) ? name : std::string();
}

uint32_t Decoder::add_call(Decode& d, const ptx_text::Operand& callee, const ptx_text::Operand* results,
                           const ptx_text::Operand* arguments) {
  const std::string name = function_named(callee.text);
  const auto function = functions_.find(name);
  if (function == functions_.end()) throw Refused{fmt::format("there is no function {}", callee.text)};
  const ptx_text::Function& f = *function->second;
  Call call;
  call.results = passed_values(d, results, &f.results, true);
  call.arguments = passed_values(d, arguments, &f.parameters, false);
  if (f.has_body)
    call.routine = want(name);
  else if (!provided(name))
    throw Refused{
        fmt::format("the function {} has no body, and the emulator does not provide it", callee.text)};
  calls_.push_back({callee.at, name});
  kernel_.calls.push_back(std::move(call));
  return static_cast<uint32_t>(calls_.size() - 1);
}

uint32_t Decoder::add_call_by_address(Decode& d, const ptx_text::Operand& callee,
                                      const ptx_text::Operand* results, const ptx_text::Operand* arguments) {
  Call call;
  call.target = d.source(callee, Type::b64);
  d.needs(call.target);
  call.results = passed_values(d, results, nullptr, true);
  call.arguments = passed_values(d, arguments, nullptr, false);
  calls_.push_back({callee.at, {}});
  kernel_.calls.push_back(std::move(call));
  return static_cast<uint32_t>(calls_.size() - 1);
}

// Throws an Error if the arguments or results of a call do not match those of the function in number and
// size.
void Decoder::check_call(const CallSite& call, const char* what, const std::vector<CallValue>& given,
                         const std::vector<CallValue>& taken) {
  if (given.size() != taken.size())
    ptx_text::fail(call.at, fmt::format("this call of {} has {} {}, but the function has {}", call.callee,
                                        given.size(), what, taken.size()));
  for (size_t k = 0; k < given.size(); ++k)
    if (given[k].bytes != taken[k].bytes)
      ptx_text::fail(call.at, fmt::format("this call of {}: {} {} has {} B, but the function's has {} B",
                                          call.callee, what, k, given[k].bytes, taken[k].bytes));
}

void Decoder::link_calls() {
  for (size_t k = 0; k < calls_.size(); ++k) {
    const CallSite& site = calls_[k];
    const Call& call = kernel_.calls[k];
    if (site.callee.empty()) continue;  // a call through a register: the function is known only at run time
    const Provided* p = functions_.at(site.callee)->has_body ? nullptr : provided(site.callee);
    const Routine& routine = kernel_.routines[call.routine];
    check_call(site, "arguments", call.arguments, p ? p->arguments : routine.parameters);
    check_call(site, "results", call.results, p ? p->results : routine.results);
  }
}

}  // namespace ptxbuilder::runtime::emulator
