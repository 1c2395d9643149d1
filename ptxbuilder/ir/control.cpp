// Implements variables, branches and loops.
#include "ptxbuilder/ir/control.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/ir/state.h"

namespace ptxbuilder {

llvm::Value* Builder::declare_variable(Class cls) {
  State& s = state();
  s.function_or_create();
  // The variable is allocated in the entry block, and only loads and stores use it, so that finish() can turn
  // it into registers.
  auto* cell = new llvm::AllocaInst(type_of(cls, s.context), s.module->getDataLayout().getAllocaAddrSpace(),
                                    "", s.entry_end->getIterator());
  s.variables.push_back(cell);
  return cell;
}

llvm::Value* Builder::load_variable(llvm::Value* variable, Class cls) {
  check_is_ours(*state_, variable);
  return state_->ir.CreateLoad(type_of(cls, state_->context), variable);
}

void Builder::store_variable(llvm::Value* variable, llvm::Value* value) {
  const detail::OpenBody* body = detail::OpenBody::innermost();
  if (body && body->threads().divides_warpgroups()) state_->varying.insert(variable);
  check_is_ours(*state_, variable);
  check_is_ours(*state_, value);
  state_->ir.CreateStore(value, variable);
}

void Builder::if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
                  Where where, std::string_view construct) {
  AtLine line(where);
  State& s = state();
  check_is_ours(s, condition.handle());
  llvm::BasicBlock* then_block = s.new_block("then");
  llvm::BasicBlock* else_block = otherwise ? s.new_block("else") : nullptr;
  llvm::BasicBlock* end = s.new_block("end");
  s.ir.CreateCondBr(condition.handle(), then_block, otherwise ? else_block : end);
  // Branches that the library adds, for example around the store of one thread, are not reported to the
  // caller.
  const bool is_internal = !line.opens() && construct == "if_";
  const detail::ThreadSet threads =
      is_internal ? detail::ThreadSet::all() : detail::threads_where(condition.handle());
  auto run = [&](llvm::BasicBlock* block, const detail::ThreadSet& in, const std::function<void()>& body) {
    s.ir.SetInsertPoint(block);
    std::vector<const llvm::Value*> conditions;
    if (!is_internal) conditions.push_back(condition.handle());
    const detail::OpenBody open(construct, where, in, std::move(conditions));
    run_body(construct, line, body);
    s.ir.CreateBr(end);
  };
  run(then_block, threads, then);
  if (otherwise) run(else_block, is_internal ? threads : !threads, otherwise);
  s.ir.SetInsertPoint(end);
}

void Builder::while_(const std::function<pred()>& condition, const std::function<void()>& body, Where where) {
  AtLine line(where);
  State& s = state();
  llvm::BasicBlock* head = s.new_block("while");
  llvm::BasicBlock* round = s.new_block("round");
  llvm::BasicBlock* end = s.new_block("end");
  s.ir.CreateBr(head);
  s.on_loop(true);
  s.ir.SetInsertPoint(head);
  const detail::LoopJudgements judgements(s);
  const detail::OpenBody every_round("while_", where);  // values of the condition are also valid in the body
  std::optional<pred> again;
  run_body("while_", line, [&] { again.emplace(condition()); });
  check_is_ours(s, again->handle());
  s.ir.CreateCondBr(again->handle(), round, end);
  s.ir.SetInsertPoint(round);
  {
    const detail::OpenBody open("while_", where, detail::threads_where(again->handle()), {again->handle()});
    run_body("while_", line, body);
  }
  judgements.end();
  s.on_loop(false);
  s.ir.CreateBr(head);
  s.ir.SetInsertPoint(end);
}

void Builder::for_(Class cls, Value from, Value to, Value step, const std::function<void(Value)>& body,
                   Where where) {
  AtLine line(where);
  State& s = state();
  for (Value v : {from, to, step}) check_is_ours(s, v.handle());
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(step.handle())) {
    if (known->isZero()) throw Error("for_: the step is 0, so the loop would never end");
    if ((cls == Class::s32 || cls == Class::s64) && known->isNegative())
      throw Error(
          fmt::format("for_: the step is {}, but for_ counts up while the index is below its bound; to count "
                      "down, compute n - 1 - i from the index",
                      known->getSExtValue()));
  }
  llvm::BasicBlock* head = s.new_block("for");
  llvm::BasicBlock* round = s.new_block("round");
  llvm::BasicBlock* end = s.new_block("end");
  llvm::BasicBlock* before = s.ir.GetInsertBlock();
  s.ir.CreateBr(head);
  s.ir.SetInsertPoint(head);
  llvm::PHINode* index = s.ir.CreatePHI(type_of(cls, s.context), 2);
  index->addIncoming(from.handle(), before);
  s.ir.CreateCondBr(detail::comparison(detail::Comparison::lt, cls, index, to.handle()), round, end);
  s.ir.SetInsertPoint(round);
  s.on_loop(true);
  {
    const std::vector<const llvm::Value*> bounds = {from.handle(), to.handle(), step.handle()};
    const detail::ThreadSet threads =
        line.opens() ? detail::threads_of_loop(bounds) : detail::ThreadSet::all();
    const detail::LoopJudgements judgements(s);
    const detail::OpenBody open("for_", where, threads, line.opens() ? bounds : decltype(bounds){});
    run_body("for_", line, [&] { body(Value(index)); });
    judgements.end();
  }
  s.on_loop(false);
  if (line.opens()) s.set_line(where);  // the lines of the body are closed by now
  llvm::Value* next = s.ir.CreateAdd(index, step.handle());
  index->addIncoming(next, s.ir.GetInsertBlock());
  s.ir.CreateBr(head);
  s.ir.SetInsertPoint(end);
}

}  // namespace ptxbuilder
