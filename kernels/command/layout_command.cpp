// `ptxb layout` shows the value of a layout expression as text, as JSON or as a drawing.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/draw.h"

namespace ptxbuilder::command::layout_command {

using Json = nlohmann::ordered_json;

struct Options {
  std::string expression, svg, latex, tile;
  bool table = false, json = false, batch = false;
};

// Converts integers to numbers, tuples to arrays, and strides with a basis to the text that CuTe prints.
Json to_json(const IntTuple& tuple) {
  if (!tuple.is_tuple()) return tuple.basis().empty() ? Json(tuple.value()) : Json(to_string(tuple));
  Json array = Json::array();
  for (const IntTuple& element : tuple.elements()) array.push_back(to_json(element));
  return array;
}

Json to_json(const XorSwizzle& s) { return {s.bits(), s.base(), s.shift()}; }

// Returns make(value), which evaluates all entries of a layout. Errors, for example if an entry does not fit
// in 64 bits, name the layout.
auto of_all_entries(const LayoutValue& value, auto make) {
  try {
    return make(value);
  } catch (const Error& e) {
    throw Error(fmt::format("the table of {}: {}", to_string(value), e.what()));
  }
}

Json to_json(const LayoutValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return {{"value", *truth}};
  if (const IntTuple* tuple = std::get_if<IntTuple>(&value)) return {{"value", to_json(*tuple)}};
  if (const XorSwizzle* s = std::get_if<XorSwizzle>(&value)) return {{"swizzle", to_json(*s)}};
  if (std::holds_alternative<Tiler>(value)) return {{"value", to_string(value)}};
  const ComposedLayout* composed = std::get_if<ComposedLayout>(&value);
  const Layout& layout = composed ? composed->layout() : std::get<Layout>(value);
  Json json = {{"shape", to_json(layout.shape())}, {"stride", to_json(layout.stride())}};
  if (composed) {
    json["swizzle"] = to_json(composed->swizzle());
    if (composed->offset() != 0) json["offset"] = composed->offset();
  }
  Json table = Json::array();
  for (const IntTuple& entry : of_all_entries(value, index_table)) table.push_back(to_json(entry));
  json["table"] = std::move(table);
  return json;
}

int batch() {
  for (std::string line; std::getline(std::cin, line);) {
    Json json;
    try {
      json = to_json(evaluate_layout(line));
    } catch (const Error& e) {
      json = {{"error", e.what()}};
    }
    std::string text = json.dump();
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }
  return 0;
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Error(fmt::format("cannot write {}", file));
}

// Returns a drawing of the offsets or, with --tile, of the threads and values that hold each element.
LayoutGrid drawing(const Options& o, const LayoutValue& value) {
  if (o.tile.empty()) return of_all_entries(value, grid_of);
  LayoutValue tile = evaluate_layout(o.tile);
  const IntTuple* shape = std::get_if<IntTuple>(&tile);
  if (!shape || rank(*shape) != 2) throw Error(fmt::format("--tile must be (rows,columns), not {}", o.tile));
  const Layout* layout = std::get_if<Layout>(&value);
  if (!layout) throw Error(fmt::format("{} is not a thread-value layout", to_string(value)));
  return thread_value_grid(*layout, size((*shape)[0]), size((*shape)[1]));
}

int run(const Options& o) {
  if (o.batch) return batch();
  LayoutValue value = evaluate_layout(o.expression);
  bool is_layout = std::holds_alternative<Layout>(value) || std::holds_alternative<ComposedLayout>(value);
  if (o.json)
    fmt::print("{}\n", to_json(value).dump());
  else if (is_layout && (o.table || !o.tile.empty()))
    fmt::print("{}", to_text(drawing(o, value)));
  else
    fmt::print("{}\n", to_string(value));
  if (!o.svg.empty()) write(o.svg, to_svg(drawing(o, value)));
  if (!o.latex.empty()) write(o.latex, to_latex(drawing(o, value)));
  return 0;
}

std::string function_list() {
  std::string text =
      "An expression is a layout (4,(2,4)):(1,(16,4)), a shape (4,8), which means its compact layout if a "
      "layout is needed, a\ncoordinate, a tiler <4:1,_,8>, Sw<3,4,3> o L, A o B, or L(1,2) and L(_,2), which "
      "evaluate and slice. In these functions L M A B\nare layouts, S D are a shape and strides, and T is a "
      "layout or tiler:\n";
  for (const LayoutFunction& f : layout_functions())
    text += fmt::format("  {:34} {}\n", f.signature, f.summary);
  return text;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("layout", "evaluates CuTe's layout algebra and draws layouts");
  auto o = std::make_shared<Options>();
  const Option expression = app.option("expression", o->expression, "as composition((4,8):(8,1), 8:2)");
  app.flag("--table", o->table, "show the grid of offsets: mode 0 runs down, the others to the right");
  app.flag("--json", o->json, "print shape, stride and f(0) to f(size - 1), or the value, as JSON");
  app.option("--tile", o->tile,
             "(rows,columns): read the layout as (thread, value) -> place in this tile, and draw which "
             "thread holds which value");
  app.option("--svg", o->svg, "draw into this file");
  app.option("--latex", o->latex, "draw into this file, with TikZ");
  const Option batch = app.flag(
      "--batch", o->batch, "read one expression per line of the input, and print one line of JSON for each");
  expression.excludes(batch);
  app.check([expression, batch] {
    return expression.given() || batch.given() ? "" : "pass an expression or --batch";
  });
  app.footer(function_list());
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::layout_command
