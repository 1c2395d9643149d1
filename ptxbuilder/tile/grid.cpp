#include "ptxbuilder/tile/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ptxbuilder {
namespace {

std::string axis_text(size_t number, const std::string& name) {
  return name.empty() ? fmt::format("axis {}", number) : fmt::format("axis {} (\"{}\")", number, name);
}

GridIndex index_of(const GridShape& shape, std::vector<u32> at) {
  std::vector<std::string> names;
  for (const GridAxis& axis : shape) names.push_back(axis.name);
  return {std::move(names), std::move(at)};
}

}  // namespace

GridIndex::GridIndex(std::vector<std::string> names, std::vector<u32> at)
    : names_(std::move(names)), at_(std::move(at)) {
  if (names_.size() != at_.size())
    throw Error(
        fmt::format("grid: {} names of axes were given for {} numbers; give a name for each number, or \"\" "
                    "for an axis without a name",
                    names_.size(), at_.size()));
}

std::string GridIndex::axis(int number) const {
  return axis_text(static_cast<size_t>(number), names_.at(static_cast<size_t>(number)));
}

std::string GridIndex::axes() const {
  std::string text;
  for (size_t i = 0; i < names_.size(); ++i) text += (i ? ", " : "") + axis_text(i, names_[i]);
  return (text.empty() ? "there are none here" : "there are " + text) + (why_.empty() ? "" : ": " + why_);
}

u32 GridIndex::operator[](const AxisName& axis) const {
  AtLine line(axis.where);
  if (axis.name.empty()) {
    if (axis.number < 0 || axis.number >= size())
      throw Error(fmt::format("grid: axis {} does not exist; {}", axis.number, axes()));
    return at_[static_cast<size_t>(axis.number)];
  }
  const auto found = std::find(names_.begin(), names_.end(), axis.name);
  if (found == names_.end()) throw Error(fmt::format("grid: no axis is named \"{}\"; {}", axis.name, axes()));
  return at_[static_cast<size_t>(found - names_.begin())];
}

GridIndex GridIndex::with(const GridIndex& inner) const {
  GridIndex both = *this;
  both.names_.insert(both.names_.end(), inner.names_.begin(), inner.names_.end());
  both.at_.insert(both.at_.end(), inner.at_.begin(), inner.at_.end());
  return both;
}

GridIndex GridIndex::alone(std::string why) const {
  GridIndex index = *this;
  index.why_ = std::move(why);
  return index;
}

u32 steps_of_cta(u32 steps, Where where) {
  AtLine line(where);
  return ceil_div(max(steps, ctaid_x()) - ctaid_x(), nctaid_x());
}

void detail::check_grid(const GridShape& shape, std::string_view operation) {
  if (shape.empty())
    throw Error(fmt::format("{}: the grid has no axes, but must have at least one", operation));
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string& name = shape[i].name;
    if (const auto known = shape[i].size.known(); known && *known < 1)
      throw Error(fmt::format("{}: {} of the grid has {} steps, but each axis must have at least one",
                              operation, axis_text(i, name), *known));
    for (size_t j = 0; j < i && !name.empty(); ++j)
      if (shape[j].name == name)
        throw Error(
            fmt::format("{}: axes {} and {} of the grid are both named \"{}\"", operation, j, i, name));
  }
}

u32 detail::steps_of(const GridShape& shape) {
  Index steps = 1;
  for (const GridAxis& axis : shape) steps = LayoutInteger<Index>::multiply(steps, axis.size);
  return steps.value();
}

detail::GridWalk::GridWalk(const GridShape& shape) : shape_(shape) {
  for (size_t i = 0; i < shape.size(); ++i) at_.emplace_back(u32(0));
}

GridIndex detail::GridWalk::at() const {
  std::vector<u32> at;
  for (const Var<u32>& axis : at_) at.push_back(axis.value());
  return index_of(shape_, std::move(at));
}

void detail::GridWalk::next() {
  pred carry(true);
  for (size_t i = shape_.size(); i-- > 0;) {
    const u32 up = at_[i].value() + u32(carry);
    carry = up == shape_[i].size.value();
    at_[i] = select(carry, u32(0), up);
  }
}

void detail::for_each_step(const GridShape& shape, const std::function<void(const GridIndex&, u32)>& body) {
  if (shape.size() == 1) return for_(0, shape[0].size.value(), [&](u32 i) { body(index_of(shape, {i}), i); });
  GridWalk walk(shape);
  for_(0, steps_of(shape), [&](u32 i) {
    body(walk.at(), i);
    walk.next();
  });
}

}  // namespace ptxbuilder
