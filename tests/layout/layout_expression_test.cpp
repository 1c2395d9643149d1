// Tests layout expressions: the meaning of the notation, the positions of errors, and arbitrary text.
#include <doctest/doctest.h>

#include <chrono>

#include "error_kit.h"
#include "layout_kit.h"

namespace ptxbuilder::test::layout_expression_test {
namespace {

std::string eval(std::string_view text) { return to_string(evaluate_layout(text)); }

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("the notation") {
  CHECK(eval("7") == "7");
  CHECK(eval(" ( 4 , ( 2 , 4 ) ) : ( 1 , ( 16 , 4 ) ) ") == "(4,(2,4)):(1,(16,4))");
  CHECK(eval("(_4,(_2,_4)):(_1,(_16,_4))") == "(4,(2,4)):(1,(16,4))");  // CuTe's notation of static integers
  CHECK(eval("4:-1") == "4:-1");
  CHECK(eval("(4)") == "(4)");
  CHECK(eval("(4,)") == "(4)");
  CHECK(eval("(4:1)") == "4:1");
  CHECK(eval("<4:1, _, 8>") == "<4:1,_,8>");
  CHECK(eval("(4,8):(1@0,3@0@1)") == "(4,8):(1@0,3@0@1)");
  CHECK(eval("(4,8):(1@0,3@0@1)(9)") == "(1,(6))");
}

TEST_CASE("calls evaluate and slice, and bind to the whole layout before them") {
  CHECK(eval("(4,8):(8,1)(1,2)") == "10");
  CHECK(eval("(4,8):(8,1)((1,2))") == "10");
  CHECK(eval("(4,8):(8,1)(5)") == "9");
  CHECK(eval("(4,8)(1,2)") == "9");  // a shape means its compact layout
  CHECK(eval("(4,8):(8,1)(_,2)") == "(4):(8)");
  CHECK(eval("(4,(2,4)):(1,(16,4))(_,(_,1))") == "(4,2):(1,16)");
  CHECK(eval("(4,8):(8,1)(_)") == "(4,8):(8,1)");
  CHECK(eval("composition((4,8):(8,1), 4:1)(3)") == "24");
  CHECK(eval("(4,8):(8,1)(_,2)(3)") == "24");
}

TEST_CASE("o composes") {
  CHECK(eval("(4,8):(8,1) o 4:2") == eval("composition((4,8):(8,1), 4:2)"));
  CHECK(eval("20:2 o 10:2 o 5:2") == "5:8");
  CHECK(eval("Sw<3,4,3> o (8,64):(64,1)") == "Sw<3,4,3> o 0 o (8,64):(64,1)");
  CHECK(eval("Sw<3,4,3> o 64 o (8,64):(64,1)") == "Sw<3,4,3> o 64 o (8,64):(64,1)");
  CHECK(eval("Sw<3,4,3> o 64") == "Sw<3,4,3> o 0 o 64:1");
  // CuTe prints such prefixes before a layout. A swizzle before a pointer acts on bytes.
  CHECK(eval("Sw<3,4,3> o smem_ptr[16b](unset) o ((_64,_4),(_8,_8)):((_1,_512),(_64,_2048))") ==
        "Sw<3,3,3> o 0 o ((64,4),(8,8)):((1,512),(64,2048))");
  CHECK(eval("Sw<2,4,3>_smem_ptr[8b](0x7f0000000400) o (8,64):(64,1)") == "Sw<2,4,3> o 0 o (8,64):(64,1)");
  CHECK(eval("Sw<3,4,3> o smem_ptr[4b](unset) o (8,256):(256,1)") == "Sw<3,5,3> o 0 o (8,256):(256,1)");
  CHECK(eval("gmem_ptr[16b](0x7f32c6a00000) o (128,64):(64,_1)") == "(128,64):(64,1)");
  CHECK(eval("tmem_[32b](0x0000.0000) o (128,64):(65536,1)") == "(128,64):(65536,1)");
  CHECK(eval("ArithTuple(_0,_0) o (128,64):(_1@0,_1@1)") == "(128,64):(1@0,1@1)");
  CHECK(eval("cosize(ptr[32b](0x10) o 8:2)") == "15");
  CHECK(eval("Sw<0,4,3> o 64:1") == "64:1");
  CHECK(eval("logical_divide(Sw<3,4,3> o (8,64):(64,1), <4, 16>)") ==
        "Sw<3,4,3> o 0 o ((4,2),(16,4)):((64,256),(1,16))");
}

TEST_CASE("every listed function can be called") {
  for (const LayoutFunction& f : layout_functions()) {
    std::string name(f.signature.substr(0, f.signature.find('(')));
    CAPTURE(name);
    // Eight arguments are either too many or accepted. In both cases, the name is known.
    std::string message = error_of([&] { evaluate_layout(name + "(4,4,4,4,4,4,4,4)"); });
    bool known = message.find("there is no function") == std::string::npos;
    CHECK(known);
    CHECK(!f.summary.empty());
  }
  CHECK_ERROR(eval("compositon(4:1, 2:1)"), "there is no function compositon; the functions are size, ");
}

TEST_CASE("printed text can be read again") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  for (int round = 0; round < 2000; ++round) {
    Layout layout = make.layout();
    if (make.pick(4) == 0) layout = make_identity_layout(layout.shape());
    std::string text = to_string(layout);
    CAPTURE(text);
    LayoutValue value = evaluate_layout(text);
    REQUIRE(std::get<Layout>(value) == layout);
    REQUIRE(index_table(value).size() == static_cast<size_t>(size(layout)));
  }
}

TEST_CASE("an error has the column and the expected text") {
  struct Wrong {
    const char *text, *message;
  };
  for (const Wrong& w : {
           Wrong{"", "column 1: expected an integer, '_', '(', '<' or a name, found the end"},
           {"(4,8", "column 5: expected ',' or ')', found the end"},
           {"(4,8]", "column 5: expected ',' or ')', found ']'"},
           {"()", "column 2: expected an integer, '_', '(', '<' or a name, found ')'"},
           {"4:1 5", "column 5: expected the end, ':', '(' or 'o', found '5'"},
           {"4:1:1", "column 4: expected the end"},
           {"4x", "column 2: expected an operator after the integer, found 'x'"},
           {"99999999999999999999", "column 1: the integer does not fit in 64 bits"},
           {"coalesce 4:1", "column 10: expected '(' after coalesce, found '4'"},
           {"Sw<3,4,3", "column 9: expected '>', found the end"},
           {"Sw<3>", "column 1: a swizzle has B, M and S"},
           {"smem_ptr[16b](unset)", "column 21: expected 'o' and a layout, found the end"},
           {"smem_ptr[b](unset) o 8", "column 10: expected the bits of an element, such as 16b, found 'b'"},
           {"smem_ptr[0b](unset) o 8", "column 10: an element has 1 to 128 bits"},
           {"smem_ptr[16b](somewhere) o 8", "column 15: expected an address in 0x, or unset, found 's'"},
           {"8:1 o smem_ptr[16b](unset) o 8:1", "column 7: smem_ptr comes first, or after a swizzle"},
           {"Sw<3,4,3>_ 8:1", "column 12: expected a pointer, such as smem_ptr[16b](unset), found '8'"},
           {"ArithTuple(1,0) o 8:1@0", "column 1: coordinates that do not begin at 0"},
           {"(8,8):(8,4) o 0", "composition with 0:1: a shape is at least 1, not 0"},
           {"logical_divide(8:1, 0)", "a shape is at least 1, not 0"},
           {"ceil_div(8, 0)", "0"},
           {"size(4:1, 2)", "column 1: size(L) takes 1 arguments, not 2"},
           {"(4,8) + complement(4:2)", "column 7: expected the end"},
           {"(4, complement((4,4):(1,2), 32))", "column 5: complement("},
           {"4:\x01", "column 3: expected an integer, '_', '(', '<' or a name, found the byte 0x01"},
           {"1@64", "column 3: a basis has at most"},
           {"(2,_):(1,2)",
            "column 1: the tiler <2,_> is given, but an integer or a tuple of integers is expected"},
           {"composition(_, 4:1)", "the tiler _ is given, but a layout or shape is expected"},
           {"compatible(4,4)(1)", "the truth value true is given, but a layout or shape is expected"},
       }) {
    std::string text = w.text;
    CAPTURE(text);
    CHECK_ERROR(evaluate_layout(text), w.message);
  }
}

TEST_CASE("exceeding a limit is an error, and reaching it is not") {
  CHECK_ERROR(evaluate_layout(repeated("(", 65) + "4" + repeated(")", 65)),
              "column 65: nested more than 64 levels deep");
  CHECK(eval(repeated("(", 60) + "4" + repeated(")", 60)).size() == 121);
  CHECK_ERROR(evaluate_layout(repeated("(", 16000) + "4"), "nested more than 64 levels deep");
  CHECK_ERROR(evaluate_layout(repeated("4", 16385)), "an expression can have at most 16384 characters");
  CHECK(eval("size((" + repeated("1,", 8000) + "1))") == "1");
  CHECK_ERROR(index_table(evaluate_layout("1048577:0")),
              "a table can have at most 1048576 entries, but the layout has 1048577");
  CHECK(index_table(evaluate_layout("1048576:0")).size() == 1048576);
  CHECK_ERROR(index_table(evaluate_layout("(4,8)")), "is not a layout");
  CHECK_ERROR(eval("(4,4):(9223372036854775807,1)(3)"), "does not fit");
  CHECK(eval("(4,4):(9223372036854775807,1)(1)") == "9223372036854775807");
  CHECK_ERROR(eval("cosize((4,4):(9223372036854775807,1))"), "does not fit");
  CHECK_ERROR(eval("upcast(4:-9223372036854775807, 2)"), "one must divide the other");
}

// Each random string, and each random change of a valid expression, must quickly result in a value or an
// Error.
TEST_CASE("every text is handled") {
  CAPTURE(layout_seed());
  LayoutMaker make(layout_seed());
  const std::vector<std::string> pieces = [] {
    std::vector<std::string> all = {"(",
                                    ")",
                                    "<",
                                    ">",
                                    ",",
                                    ":",
                                    "_",
                                    "@",
                                    "-",
                                    " o ",
                                    "smem_ptr[16b](unset)",
                                    "Sw<3,4,3>",
                                    "0",
                                    "1",
                                    "2",
                                    "4",
                                    "8",
                                    "64",
                                    "9223372036854775807",
                                    "4294967296",
                                    "(4,8):(1,4)",
                                    "<4:1,_>",
                                    "1@0",
                                    "(_,2)"};
    for (const LayoutFunction& f : layout_functions())
      all.push_back(std::string(f.signature.substr(0, f.signature.find('(') + 1)));
    return all;
  }();
  const char* right[] = {"composition((4,(2,4)):(1,(16,4)), 8:2)",
                         "logical_divide((9,(4,8)):(59,(13,1)), <3:3,(2,4):(1,8)>)",
                         "recast(Sw<3,4,3> o 0 o (8,64):(64,1), 8, 16)(3,_)",
                         "tile_to_shape((8,8):(8,1), (16,16), (1,0))",
                         "crd2idx((1,(1,2)), (3,(2,3)), (3,(12,1)))",
                         "make_identity_layout((4,(2,2)))(5)"};
  int values = 0, errors = 0;
  auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    if (round % 2 == 0) {
      for (int n = 1 + make.pick(12); n > 0; --n)
        text += pieces[static_cast<size_t>(make.pick(static_cast<int>(pieces.size())))];
    } else {
      text = right[make.pick(static_cast<int>(std::size(right)))];
      for (int n = make.pick(3); n >= 0; --n) {
        size_t at = static_cast<size_t>(make.pick(static_cast<int>(text.size())));
        int how = make.pick(4);
        if (how == 0) text.erase(at, 1 + static_cast<size_t>(make.pick(4)));
        if (how == 1) text[at] = static_cast<char>(make.pick(256));
        if (how == 2)
          text.insert(at, pieces[static_cast<size_t>(make.pick(static_cast<int>(pieces.size())))]);
        if (how == 3) text.insert(at, text.substr(0, static_cast<size_t>(make.pick(20))));
        if (text.empty()) text.push_back('4');
      }
    }
    CAPTURE(text);
    try {
      to_string(evaluate_layout(text));
      ++values;
    } catch (const Error& e) {
      ++errors;
      REQUIRE(std::string(e.what()).starts_with("column "));
    }
  }
  auto spent = std::chrono::steady_clock::now() - start;
  CHECK(spent < std::chrono::seconds(60));
  CHECK(values > 100);
  CHECK(errors > 5000);
}

}  // namespace ptxbuilder::test::layout_expression_test
