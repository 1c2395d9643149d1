// Defines grids of steps: their axes, with or without names, and the index of a step along each axis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/typed_calls.h"

namespace ptxbuilder {

// An axis of a grid, with a number of steps, which may be a host integer or a device value, and an optional
// name.
struct GridAxis {
  template <detail::HostInteger I>
  GridAxis(I size) : size(size) {}    // NOLINT: implicit, so that a size can be passed as an axis
  GridAxis(u32 size) : size(size) {}  // NOLINT
  GridAxis(std::string name, Index size) : name(std::move(name)), size(size) {}

  std::string name = {};
  Index size;
};

// The axes of a grid, outermost first: the last axis varies fastest.
using GridShape = std::vector<GridAxis>;

// Selects an axis by number or name, and holds the caller's source line.
struct AxisName {
  AxisName(int number, Where where = Where::here()) : number(number), where(where) {}         // NOLINT
  AxisName(std::string_view name, Where where = Where::here()) : name(name), where(where) {}  // NOLINT
  AxisName(const char* name, Where where = Where::here())
      : AxisName(std::string_view(name), where) {}  // NOLINT

  int number = 0;
  std::string_view name = {};
  Where where;
};

// The position of a step in a grid, as one index for each axis. An axis is selected by its number or name.
class GridIndex {
 public:
  GridIndex() = default;
  // Throws Error unless the two lists have the same length. The name "" stands for an axis without a name.
  GridIndex(std::vector<std::string> names, std::vector<u32> at);

  // Returns the step's number along an axis. If this axis does not exist, the function throws an Error that
  // lists the axes.
  u32 operator[](const AxisName& axis) const;
  int size() const { return static_cast<int>(at_.size()); }
  std::string axis(int number) const;  // returns a description such as: axis 0 ("row")

  // Returns an index with the axes of this index, followed by the axes of `inner`.
  GridIndex with(const GridIndex& inner) const;
  // Returns a copy of this index whose errors also state `why`, the reason why there are no further axes.
  GridIndex alone(std::string why) const;

 private:
  std::string axes() const;
  std::vector<std::string> names_;  // "" for an axis without a name
  std::vector<u32> at_;
  std::string why_;  // why the index has no further axes
};

// Returns the number of steps that belong to this CTA if `steps` steps are distributed round-robin among the
// CTAs of a grid along x. This CTA's steps are ctaid_x(), ctaid_x() + nctaid_x(), and so on.
u32 steps_of_cta(u32 steps, Where where = Where::here());

namespace detail {

// Throws Error if an axis is known on the host to have no steps, or if two axes have the same name.
void check_grid(const GridShape& shape, std::string_view operation);
// Returns the number of steps in a grid.
u32 steps_of(const GridShape& shape);

// Walks over the steps of a grid in row-major order, without divisions.
class GridWalk {
 public:
  explicit GridWalk(const GridShape& shape);

  GridIndex at() const;
  // Advances to the next step; after the last step, the walk starts over.
  void next();

 private:
  GridShape shape_;
  std::vector<Var<u32>> at_;
};

// Runs `body` for each step of a grid, one after the other. `number` counts the steps from 0.
void for_each_step(const GridShape& shape, const std::function<void(const GridIndex& at, u32 number)>& body);

}  // namespace detail

}  // namespace ptxbuilder
