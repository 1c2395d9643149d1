// Registers a kernel family for each operation on rows.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <numeric>

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "kernels/rows/reference.h"
#include "ptxbuilder/isa/hopper.h"
#include "runtime/lazy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32};

DType type_of(const RowTensor& t, DType first) {
  if (t.type == RowTensor::Type::number) return DType::f32;
  if (t.type == RowTensor::Type::e4m3) return DType::e4m3;
  if (t.type == RowTensor::Type::bytes) return DType::u8;
  return t.type == RowTensor::Type::integer ? DType::s32 : first;
}

RowProblem problem_of(const RowOperation& o, const command::Fields& f) {
  const DType type = kTypes[f["type"]];
  const int64_t columns = f["columns"];
  RowProblem problem{&o, {}, {}};
  int64_t optional = f["optional"];
  for (const RowTensor& t : o.tensors) {
    problem.types.emplace_back();
    if (!t.goes_with.empty()) {
      for (size_t i = 0; i + 1 < problem.types.size(); ++i)
        if (o.tensors[i].name == t.goes_with && problem.types[i]) problem.types.back() = type_of(t, type);
      continue;
    }
    if (!t.is_optional() || optional % 2 != 0) problem.types.back() = type_of(t, type);
    if (t.is_optional()) optional /= 2;
  }
  const int64_t widest = 16 / size_of(type);
  const int vector = static_cast<int>(std::min(widest, columns & -columns));
  RowLimits limits = o.limits;
  if (f["values"] > 0) limits.values = limits.values_of_words = f.small("values"), limits.values_of_warp = 0;
  if (f["threads_at_once"] > hopper::sm_threads)
    throw Error(fmt::format("{}: threads_at_once is {}, but a multiprocessor has {} threads", o.name,
                            f["threads_at_once"], hopper::sm_threads));
  if (f["threads_at_once"] > 0) limits.threads_at_once = limits.threads_of_warps = f.small("threads_at_once");
  problem.tile = o.is_of_rows
                     ? row_tile(columns, size_of(type), vector, limits, f.small("ctas"))
                     : RowTile{.vector = static_cast<int>(std::min<int64_t>(vector, f["rows"] & -f["rows"]))};
  return problem;
}

// Sets elements to random integers from `least` to `end`, exclusive.
void choose(command::Tensor& t, int64_t least, int64_t end) {
  for (size_t i = 0; i < t.count(); ++i) {
    const auto drawn = static_cast<int64_t>(std::abs(t[i]));
    t.set(i, static_cast<double>(drawn * 7919 % (end - least) + least));
  }
  t.to_device();
}

// Sets elements to distinct integers below `end` in a scrambled order. Every fifth element is -1, and so are
// all elements after the integers have been used up.
void scatter(command::Tensor& t, int64_t end) {
  int64_t step = end / 3 + 1;
  while (std::gcd(step, end) != 1) ++step;
  for (size_t i = 0; i < t.count(); ++i) {
    const auto n = static_cast<int64_t>(i);
    t.set(i, static_cast<double>(n % 5 == 4 || n >= end ? -1 : n * step % end));
  }
  t.to_device();
}

// Sets the elements of an index to numbers of rows.
void choose(command::Tensor& x, const RowOperation& o, const RowTensor& index, const RowReference& call) {
  int64_t end = 1;
  for (const std::string& word : index.counts) end *= call.sizes.at(word);
  const auto is_of_updated = [&](const RowTensor& t) {
    return t.is_updated() && std::find(t.shape.begin(), t.shape.end(), index.counts[0]) != t.shape.end();
  };
  if (std::any_of(o.tensors.begin(), o.tensors.end(), is_of_updated))
    scatter(x, end);  // equal numbers would make writes race
  else
    choose(x, index.counts[0] == "columns" ? -1 : 0, end);
}

void run(const RowOperation& o, const command::Fields& f, command::Run& run) {
  const RowProblem problem = problem_of(o, f);
  RowReference call;
  for (const std::string& word : o.sizes())
    call.sizes[word] = word == "column_blocks" ? (f["columns"] + 127) / 128
                       : word == "row_blocks"  ? (f["rows"] + 127) / 128
                       : o.fixed_extent(word)  ? *o.fixed_extent(word)
                                               : f[word];
  for (const RowNumber& n : o.numbers) call.numbers[n.name] = n.unsaid;
  std::vector<command::Tensor> tensors;
  std::vector<runtime::Argument> arguments;
  const auto parts = static_cast<uint64_t>(row_parts(problem.tile, f["rows"], run.multiprocessors()));
  double bytes = 0;
  for (size_t i = 0; i < o.tensors.size(); ++i) {
    const RowTensor& t = o.tensors[i];
    std::vector<uint64_t> shape;
    for (size_t k = t.shape.size(); k-- > 0;) shape.push_back(static_cast<uint64_t>(call.sizes[t.shape[k]]));
    if (t.is_summed) shape.push_back(parts);
    const DType type = t.is_summed ? DType::f32 : problem.types[i].value_or(DType::f32);
    tensors.push_back(t.is_written() && !t.is_updated() ? run.output(type, shape) : run.normal(type, shape));
    if (!problem.types[i]) continue;
    arguments.push_back(tensors.back().pointer());
    bytes += static_cast<double>(tensors.back().count()) * size_of(type);
    if (t.is_written() && !t.is_updated()) continue;
    if (!t.counts.empty()) choose(tensors.back(), o, t, call);
    std::vector<double>& values = call.given[t.name];
    for (size_t e = 0; e < tensors.back().count(); ++e) values.push_back(tensors.back()[e]);
  }
  for (const std::string& word : o.sizes())
    arguments.push_back(runtime::scalar(static_cast<uint32_t>(call.sizes[word])));
  for (const RowTensor& t : o.tensors)
    for (size_t d = 0; d < t.strided.size(); ++d) {
      uint64_t stride = 1;
      for (size_t k = d + 1; k < t.shape.size(); ++k) stride *= static_cast<uint64_t>(call.sizes[t.shape[k]]);
      arguments.push_back(runtime::scalar(stride));
    }
  for (const RowNumber& n : o.numbers) arguments.push_back(runtime::scalar(n.unsaid));
  run.launch(arguments);
  // Each row is computed only once, although several threads request its elements.
  std::deque<runtime::Lazy<std::map<std::string, std::vector<RowExpected>>>> rows(
      static_cast<size_t>(call.sizes["rows"]));
  const auto expected = [&](const std::string& tensor, size_t row, size_t element) {
    return rows[row].get([&] { return row_reference(o.name, call, row); }).at(tensor)[element];
  };
  const auto columns = static_cast<size_t>(f["columns"]);
  const size_t rows_of_cta = static_cast<size_t>(problem.tile.rows());
  for (size_t i = 0; i < o.tensors.size(); ++i) {
    const RowTensor& t = o.tensors[i];
    if (!t.is_written() || !problem.types[i]) continue;
    const double rounding = unit_roundoff(tensors[i].dtype()) * 1.01;
    if (t.is_updated()) {
      const std::vector<double>& before = call.given[t.name];
      run.check(
          tensors[i], static_cast<double>(rows.size()),
          [&, rounding](size_t e) {
            const RowExpected right = updated_reference(o.name, call, t.name, e);
            return command::Expected{right.value, right.tolerance + rounding * std::abs(right.value)};
          },
          [&] {
            for (size_t e = 0; e < before.size(); ++e) tensors[i].set(e, before[e]);
            tensors[i].to_device();
          });
      continue;
    }
    const size_t of_row = tensors[i].count() / (t.is_summed ? parts : rows.size());
    run.check(
        tensors[i], t.is_summed ? static_cast<double>(rows.size()) : 1, [&, rounding, of_row](size_t e) {
          RowExpected right = {0, 0};
          if (!t.is_summed && t.shape.front() == "rows")
            right = expected(t.name, e / of_row, e % of_row);
          else if (!t.is_summed && t.shape.back() == "rows")
            right = expected(t.name, e % rows.size(), e / rows.size());
          else if (!t.is_summed)  // scales of blocks along columns: any row of the block has the result
            right = expected(t.name, e / columns * 128, e % columns);
          for (size_t row = 0; t.is_summed && row < rows.size(); ++row) {
            if (row / rows_of_cta % parts != e / of_row) continue;
            const RowExpected term = expected(t.name, row, e % of_row);
            right.value += term.value, right.tolerance += term.tolerance;
          }
          return command::Expected{right.value, right.tolerance + rounding * std::abs(right.value) + 0x1p-24};
        });
  }
  run.measure(0, bytes);
}

command::Family family_of(const RowOperation& o) {
  std::vector<command::Field> fields = {
      {"rows", 1024, "extent of the matrix"},
      {"columns", 1024, "extent of the matrix"},
      {"type", 1, "type of the elements", 1, 0, {"f16", "bf16", "f32"}},
      {"values", 0, "the largest number of values of a row that a thread has; 0 for the operation's default",
       1, 0},
      {"optional", 15, "which of the optional tensors are given, a bit for each", 1, 0},
      {"threads_at_once", 0,
       "threads of a multiprocessor, which limit a thread's registers; 0 for the operation's default", 128,
       0},
      {"ctas", 0, "CTAs that share a row; 0 for the library's choice", 1, 0}};
  for (const std::string& word : o.sizes())
    if (word != "rows" && word != "columns" && !word.ends_with("_blocks") && !o.fixed_extent(word))
      fields.push_back({word,
                        word == "halves" ? 2
                        : word == "k"    ? 8
                                         : 64,
                        "an extent of a tensor of the operation"});
  return {.name = o.name,
          .summary = o.summary,
          .fields = fields,
          .build = [&o](const command::Fields& f) { return o.build(problem_of(o, f)); },
          .run = [&o](const command::Fields& f, command::Run& r) { run(o, f, r); }};
}

const auto registrations = [] {
  std::vector<command::Registration> all;
  for (const RowOperation& o : row_operations()) all.emplace_back(family_of(o));
  return all;
}();

}  // namespace
}  // namespace ptxbuilder::kernels
