// --report as users meet it, and zenflow-sim explore: that the page has the document that --json
// prints, and that the server answers all, refuses what it should, and ends on Ctrl-C.
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/time.h>

#include "tests/support/file_content.h"
#include "tests/support/program.h"
#include "tests/support/small_scenario.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kTrace = R"({"traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 0, "dur": 100, "args": {}},
  {"ph": "X", "cat": "kernel", "name": "</script>k", "pid": 0, "tid": 7, "ts": 10, "dur": 20, "args": {"device": 0, "stream": 7}}]})";

/// The content of an element of a page.
json element(const std::string& html, const std::string& id) {
  const std::string begin = "id=\"" + id + "\">";
  const std::size_t from = html.find(begin) + begin.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

class PageCli : public ::testing::Test {
 protected:
  PageCli() {
    write_small_scenario(folder_);
    folder_.write("t.json", kTrace);
  }
  [[nodiscard]] Outcome run(const Arguments& arguments) const {
    return run_program(Arguments{ZENFLOW_SIM} + arguments, {.folder = folder_.path()});
  }
  /// The page that the command writes; its document has to be what it prints.
  std::string page_of(const Arguments& arguments) {
    const Outcome outcome = run(arguments + Arguments{"--json", "--report", "p.html", "-f"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("wrote p.html"));
    std::string html = file_content(folder_ / "p.html");
    EXPECT_EQ(element(html, "document"), json::parse(outcome.out));
    return html;
  }
  TemporaryFolder folder_;
};

TEST_F(PageCli, HasTheDocumentAndARunOfEachSchedule) {
  const std::string html =
      page_of({"run", "small.yaml", "--schedule", "zenflow", "--schedule", "zero-offload"});
  EXPECT_EQ(element(html, "page")["runs"], json({"zenflow", "zero-offload"}));
  EXPECT_EQ(element(html, "run-1")["label"], "zero-offload");
  EXPECT_GT(element(html, "run-0")["name"].size(), 100U);
  EXPECT_EQ(element(html, "run-0")["memory"][0]["place"], "GPU");
}

TEST_F(PageCli, OfCompareAndExplain) {
  EXPECT_EQ(element(page_of({"compare", "small.yaml"}), "page")["runs"],
            json({"small: live-zenflow"}));
  EXPECT_EQ(element(page_of({"explain", "small.yaml"}), "page")["kind"], "explain");
}

TEST_F(PageCli, OfARecording) {
  const std::string html = page_of({"explain", "--trace", "t.json"});
  const json run = element(html, "run-0");
  EXPECT_EQ(run["names"][0][0], "</script>k");
  EXPECT_EQ(run["length"][0], 20'000);  // nanoseconds
}

TEST_F(PageCli, OfCheck) {
  const std::string html =
      page_of({"check", "--model", "Qwen/Qwen2.5-1.5B", "--gpu", "A100-80GB", "--ram", "512GB"});
  EXPECT_EQ(element(html, "document")["verdict"], "fits");
  EXPECT_EQ(element(html, "page")["runs"].size(), 1U);
}

TEST_F(PageCli, OfTuning) {
  const std::string source = ZENFLOW_SOURCE_DIR;
  const Outcome outcome = run_program(
      {ZENFLOW_TUNE, source + "/scenarios/llama2_7b_4xa100.yaml", "--vary", "update_interval=4,8",
       "--vary", "topk_ratio=0.1", "--vary", "stage=2,3", "--json", "--report", "p.html"},
      {.folder = folder_.path()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string html = file_content(folder_ / "p.html");
  EXPECT_EQ(element(html, "document"), json::parse(outcome.out));
  EXPECT_EQ(element(html, "page")["runs"], json({"chosen", "own setting"}));
  EXPECT_EQ(element(html, "run-1")["memory"][1]["place"], "host");
}

TEST_F(PageCli, IsNoOtherFileOfTheCommand) {
  for (const Arguments& arguments :
       {Arguments{"run", "small.yaml", "--schedule", "zenflow", "--trace", "r", "--report", "./r"},
        Arguments{"run", "small.yaml", "--schedule", "zenflow", "--dot", "r", "--report", "r"}}) {
    const Outcome outcome = run(arguments + Arguments{"-f"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("is written by this command besides"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "r"));
  }
}

TEST_F(PageCli, KeepsWhatIsThere) {
  folder_.write("p.html", "mine");
  const Outcome outcome = run({"run", "small.yaml", "--report", "p.html"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, HasSubstr("p.html"));
  EXPECT_EQ(file_content(folder_ / "p.html"), "mine");
}

/// zenflow-sim explore, as long as the test runs.
class Explore : public PageCli {
 protected:
  Explore() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      if (::chdir(folder_.path().c_str()) != 0) ::_exit(125);
      ::execl(ZENFLOW_SIM, ZENFLOW_SIM, "explore", "small.yaml", "-q", nullptr);
      ::_exit(126);
    }
    ::close(ends[1]);
    std::string line;
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(ends[0]);
    const std::string begin = "http://127.0.0.1:";
    EXPECT_THAT(line, StartsWith(begin));
    if (line.size() > begin.size()) port_ = std::stoi(line.substr(begin.size()));
  }
  ~Explore() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  /// All that the server sends to `request`, until it closes.
  [[nodiscard]] std::string ask(const std::string& request) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval patience{60, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      std::array<char, 4096> bytes{};
      for (ssize_t n = 0; (n = ::recv(socket, bytes.data(), bytes.size(), 0)) > 0;) {
        answer.append(bytes.data(), static_cast<std::size_t>(n));
      }
    }
    ::close(socket);
    return answer;
  }
  [[nodiscard]] std::string get(const std::string& target, const std::string& host = "") const {
    return ask("GET " + target + " HTTP/1.1\r\nHost: " +
               (host.empty() ? "127.0.0.1:" + std::to_string(port_) : host) +
               "\r\nConnection: close\r\n\r\n");
  }
  [[nodiscard]] static json body(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? json() : json::parse(answer.substr(end + 4));
  }
  /// The exit code after `signal`.
  int stop(int signal) {
    ::kill(child_, signal);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  pid_t child_ = -1;
  int port_ = 0;
};

TEST_F(Explore, AnswersAsRunDoes) {
  EXPECT_THAT(get("/"),
              AllOf(HasSubstr("200 OK"), HasSubstr("\"sliders\":[{\"name\":\"topk_ratio\"")));
  const json answer = body(get("/answer?topk_ratio=0.25&batch=2&run=0"));
  const Outcome same = run({"run", "small.yaml", "--json", "-q", "--set", "topk_ratio=0.25",
                            "--set", "training.micro_batch_size_per_gpu=2"});
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(answer["document"], json::parse(same.out));
  EXPECT_GT(answer["run"]["name"].size(), 100U);
  EXPECT_EQ(stop(SIGINT), 130);
}

TEST_F(Explore, FiftyAtOnceAreAllAnswered) {
  constexpr int kReaders = 50;
  std::vector<std::string> answers(kReaders);
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < kReaders; ++i) {
      readers.emplace_back([&, i] {
        answers[static_cast<std::size_t>(i)] =
            get("/answer?batch=" + std::to_string(1 + i % 8) + "&run=0");
      });
    }
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_THAT(answers[i], StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(body(answers[i])["document"], body(answers[i % 8])["document"]);
  }
  EXPECT_NE(body(answers[0])["document"], body(answers[1])["document"]);
  EXPECT_EQ(stop(SIGINT), 130);
}

TEST_F(Explore, RefusesWhatItShould) {
  EXPECT_THAT(get("/", "example.org"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(get("/etc/passwd"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get("/answer?topk_ratio=7"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get("/answer?batch=nan"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get("/answer?run=5"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(get("/answer?colour=1"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
                  "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  // Neither what is no HTTP nor a reader who goes away ends it.
  EXPECT_THAT(ask("hello\r\n\r\n"), Not(HasSubstr("200")));
  EXPECT_THAT(get("/answer?run=0"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(stop(SIGTERM), 143);
}

TEST_F(Explore, SaysThatAPortIsTaken) {
  const Outcome outcome = run({"explore", "small.yaml", "--port", std::to_string(port_)});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--port " + std::to_string(port_)));
}

}  // namespace
}  // namespace zenflow::testing
