// Provides a contender that runs one of the project's operations with a given tile.
#pragma once

#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

// `Form` has the members that are specific to an operation:
// - Problem, Operation, Size, Tile;
// - Call, which launches a tile, with the constructor Call(gpu, kernels, problem, operation, tile, sets) and
//   launch(set);
// - place(problem), which returns the operation and the size that the project's call derives from the
//   problem;
// - checked(operation, size, tile), which returns the tile, or throws an Error that states what it cannot be
//   combined with;
// - microseconds(operation, size, tile, multiprocessors), which returns the model's prediction.
template <class Form>
class TileContender final : public ContenderOf<typename Form::Problem> {
 public:
  using P = typename Form::Problem;
  using Operation = typename Form::Operation;
  using Kernels = OurKernels<Operation, typename Form::Tile>;
  // Returns the tile for an operation and a size on a GPU with this number of SMs. Throws Error if there is
  // none.
  using Choice = std::function<typename Form::Tile(const Operation&, const typename Form::Size&, int)>;

  TileContender(const Gpu& gpu, std::shared_ptr<Kernels> kernels, std::string name, Choice choice, bool usual)
      : gpu_(gpu),
        kernels_(std::move(kernels)),
        name_(std::move(name)),
        choice_(std::move(choice)),
        usual_(usual) {}

  std::string name() const override { return name_; }
  bool is_usual() const override { return usual_; }

  std::string refuses(const P& p) const override {
    try {
      planned(p);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  void announce(const P& p) override {
    try {
      const Plan plan = planned(p);
      kernels_->want(plan.operation, plan.tile);
    } catch (const Error&) {  // refuses() will report the error
    }
  }

  void prepare(const P& p, std::span<const typename P::Set> sets) override {
    call_.reset();
    plan_ = planned(p);
    call_.emplace(gpu_, *kernels_, p, plan_->operation, plan_->tile, sets);
  }

  void launch(size_t set) override { call_->launch(set); }

  std::string configuration() const override {
    return tile_configuration(
        text(plan_->tile), Form::microseconds(plan_->operation, plan_->size, plan_->tile, multiprocessors()));
  }

 private:
  struct Plan {
    Operation operation;
    typename Form::Size size;
    decltype(Form::checked({}, {}, {})) tile;
  };
  int multiprocessors() const { return gpu_.device().properties().multiprocessors; }
  Plan planned(const P& p) const {
    const auto [operation, size] = Form::place(p);
    return {operation, size, Form::checked(operation, size, choice_(operation, size, multiprocessors()))};
  }

  const Gpu& gpu_;
  std::shared_ptr<Kernels> kernels_;
  std::string name_;
  Choice choice_;
  bool usual_;
  std::optional<Plan> plan_;
  std::optional<typename Form::Call> call_;
};

}  // namespace ptxbuilder::bench
