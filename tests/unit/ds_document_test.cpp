// Reading and writing DeepSpeed's JSON: nothing of the user's is lost.
#include "sim/deepspeed/ds_document.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string error_of(const std::string& text) {
  try {
    (void)parse_ds_document(text, "ds.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

std::string round_trip(const std::string& text) {
  return render_json(parse_ds_document(text, "ds.json").root);
}

TEST(DsDocument, CommentsKeepEveryPosition) {
  const DsDocument document = parse_ds_document(
      "// head\n"
      "{ # rest of the line\n"
      "  \"a\": /* between */ 1, \"http\": \"http://x # y /* z */\"\n"
      "  /* over\n     lines */ , \"b\": 2 // {\n"
      "}\n",
      "ds.json");
  ASSERT_THAT(document.comments, SizeIs(5));
  EXPECT_EQ(document.comments[0].text(), "ds.json:1:1");
  EXPECT_EQ(document.comments[1].text(), "ds.json:2:3");
  EXPECT_EQ(document.comments[2].text(), "ds.json:3:8");
  EXPECT_EQ(document.comments[3].text(), "ds.json:4:3");
  EXPECT_EQ(document.comments[4].text(), "ds.json:5:24");
  EXPECT_EQ(document.root.find("a")->at.text(), "ds.json:3:22");
  EXPECT_EQ(document.root.find("b")->at.text(), "ds.json:5:22");
  EXPECT_EQ(document.root.find("http")->scalar, "http://x # y /* z */");
}

TEST(DsDocument, AcceptsCommentsInAnyLanguage) {
  const DsDocument document = parse_ds_document("{} // größer, 日本語", "ds.json");
  EXPECT_THAT(document.comments, SizeIs(1));
}

TEST(DsDocument, RefusesWithAPlace) {
  EXPECT_EQ(error_of("{\n  /* never closed }"),
            "ds.json:2:3: expected */ after this /*, found the end");
  EXPECT_THAT(error_of("{\"a\": 1,\n \"a\": 2}"), StartsWith("ds.json:2:2: duplicate key \"a\""));
  EXPECT_THAT(error_of("[1]"), HasSubstr("expected a DeepSpeed configuration, a JSON object"));
  EXPECT_THAT(error_of("{\"a\": 1]"), StartsWith("ds.json:1:8: not valid JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("empty file"));
  EXPECT_THAT(error_of("// only a comment"), StartsWith("ds.json:"));
  EXPECT_THAT(error_of("{\"a\": \"no end"), StartsWith("ds.json:"));
}

TEST(DsDocument, HasBounds) {
  const auto many = [](int values) {
    std::string text = "{";
    for (int i = 0; i < values; ++i) text += "k" + std::to_string(i) + ": 1\n";
    return text + "}";
  };
  EXPECT_EQ(error_of(many(10'000)),
            "ds.json:1:1: expected a DeepSpeed configuration of at most 10000 values, found 10001");
  EXPECT_EQ(error_of(std::string((8 << 20) + 1, ' ')),
            "ds.json: cannot read: a text of settings is larger than 8 MiB");
  std::string comments = "{";
  for (int i = 0; i < 100'000; ++i) comments += "#\n";
  EXPECT_THAT(parse_ds_document(comments + "a: 1}", "ds.json").comments, SizeIs(1000));
}

// DeepSpeed refuses these wherever they stand, in comments too.
TEST(DsDocument, RefusesDuplicatesAndBytesThatAreNotText) {
  for (const char* text : {"{\"a\": 1, \"a\": 2}", "{a: 1, 'a': 2}", "{\"a\": \"\xFF\"}",
                           "{ // \xFF\n}", "{ /* \xFF */ }"}) {
    EXPECT_THAT(error_of(text), StartsWith("ds.json:1:")) << text;
  }
}

TEST(DsDocument, CommentsEndAtEitherKindOfLineEnd) {
  for (const char* end : {"\n", "\r", "\r\n"}) {
    const auto document = parse_ds_document(std::string("{ // a") + end + "\"b\": 1}", "ds.json");
    EXPECT_NE(document.root.find("b"), nullptr);
  }
}

TEST(DsDocument, TruncationAnywhereIsAnErrorAndNothingElse) {
  const std::string text =
      "{ // c\n \"a\": [1, {\"b\": \"x\\\"\\u00e9\"}], /* d */ \"e\": -1.5e-8, # f\n \"g\": null}";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
  EXPECT_EQ(error_of(text), "no error");
}

TEST(DsDocument, WritesWhatItRead) {
  const std::string text =
      "{\n"
      "  \"zz_my_block\": {\n"
      "    \"z\": 1,\n"
      "    \"a\": [],\n"
      "    \"m\": {}\n"
      "  },\n"
      "  \"reduce\": 500000000,\n"
      "  \"scientific\": 5e8,\n"
      "  \"lr\": 1e-5,\n"
      "  \"betas\": [0.9, 0.950],\n"
      "  \"word\": \"5e8\",\n"
      "  \"truth\": \"true\",\n"
      "  \"yes\": true,\n"
      "  \"nothing\": null,\n"
      "  \"escaped\": \"a\\\"b\\\\c\\n\\t\\u0001é\",\n"
      "  \"nested\": [\n"
      "    {\n"
      "      \"b\": 1\n"
      "    },\n"
      "    [1, 2]\n"
      "  ]\n"
      "}\n";
  EXPECT_EQ(round_trip(text), text);
}

TEST(DsDocument, WritingDropsCommentsOnly) {
  EXPECT_EQ(round_trip("{\"b\": 1, // why\n\"a\": 2}"), "{\n  \"b\": 1,\n  \"a\": 2\n}\n");
}

TEST(DsDocument, TextThatIsNoJsonNumberIsQuoted) {
  // Such scalars come from YAML and --set only.
  Node root = parse_json("{}", "ds.json");
  for (const char* text : {"01", "1.", ".5", "+1", "1e", "0x1", "nan", "-", "yes"}) {
    Node value;
    value.kind = Node::Kind::kScalar;
    value.scalar = text;
    root.entries = {{"a", {}, value}};
    EXPECT_EQ(render_json(root), std::string("{\n  \"a\": \"") + text + "\"\n}\n");
  }
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  std::string value(int depth) {
    switch (random_() % (depth > 0 ? 6U : 4U)) {
      case 0:
        return std::to_string(random_());
      case 1:
        return std::to_string(random_() % 10) + "." + std::to_string(random_()) + "E-" +
               std::to_string(random_() % 300);
      case 2:
        return random_() % 2 == 0 ? "true" : "null";
      case 3:
        return "\"" + word() + "\"";
      case 4:
        return "[" + value(depth - 1) + "," + value(depth - 1) + "]";
      default:
        return "{\"x" + word() + "\":" + value(depth - 1) + ",\"a\":" + value(depth - 1) + "}";
    }
  }

 private:
  std::string word() {
    std::string text;
    for (auto i = random_() % 6; i > 0; --i) text += static_cast<char>('a' + random_() % 26);
    return text;
  }
  std::mt19937 random_;
};

TEST(DsDocumentProperty, WritingIsReadBackTheSameAndSettles) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const std::string text = "{\"k\":" + Generator(seed).value(4) + "}";
    const std::string once = round_trip(text);
    EXPECT_EQ(round_trip(once), once) << text;
    std::string squeezed;
    for (const char c : once) {
      if (c != ' ' && c != '\n') squeezed += c;
    }
    EXPECT_EQ(squeezed, text);  // same keys, order and texts of numbers
  }
}

TEST(DsDocument, EditsChangeOnlyWhatTheyName) {
  Node root = parse_json(R"({"b": {"c": 1, "x": 5e8}, "a": null, "z": [1]})", "ds.json");
  apply_edit(root, set_key("b.c", "2"));
  apply_edit(root, set_key("a.new.deep", "\"cpu\""));
  apply_edit(root, erase_key("z"));
  apply_edit(root, erase_key("not.there"));
  apply_edit(root, erase_key("b.c.d"));
  EXPECT_EQ(render_json(root),
            "{\n  \"b\": {\n    \"c\": 2,\n    \"x\": 5e8\n  },\n"
            "  \"a\": {\n    \"new\": {\n      \"deep\": \"cpu\"\n    }\n  }\n}\n");
  EXPECT_THROW(apply_edit(root, set_key("b.c.d", "1")), Error);
  EXPECT_EQ(describe(set_key("b.c", "2")), "b.c = 2");
  EXPECT_EQ(describe(erase_key("b.c")), "b.c removed");
}

TEST(DsDocument, SaysWhatDiffers) {
  const Node from = parse_json(R"({"b": {"c": 1, "x": 5e8}, "a": null, "z": [1]})", "ds.json");
  const Node to =
      parse_json(R"({"a": {"new": {"k": "v", "l": [1, [2]]}}, "b": {"x": 5e8, "c": 2}})", "x.json");
  std::vector<std::string> said;
  Node made = from;
  for (const Edit& edit : differences(from, to)) {
    said.push_back(describe(edit));
    apply_edit(made, edit);
  }
  EXPECT_THAT(said,
              ElementsAre("b.c = 2", R"(a = {"new": {"k": "v", "l": [1, [2]]}})", "z removed"));
  EXPECT_THAT(differences(made, to), SizeIs(0));
  EXPECT_THAT(differences(from, from), SizeIs(0));
}

TEST(DsDocument, LoadsFilesAndNamesWhatItCannotRead) {
  const testing::TemporaryFolder folder;
  const auto path = folder.write("ds.json", "{} # c");
  EXPECT_THAT(load_ds_document(path).comments, SizeIs(1));
  try {
    (void)load_ds_document(folder / "none.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none.json: cannot read: No such file"));
  }
}

}  // namespace
}  // namespace zenflow::sim
