// MGET by hiredis, pipelined.
#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "tests/bench/bench_table.h"
#include "tests/bench/lookup_connection.h"

namespace embedding::bench {
namespace {

class RedisConnection final : public Connection {
 public:
  RedisConnection(const Setup& setup, const Batches& batches, int outstanding)
      : dim_(setup.dim), outstanding_(outstanding) {
    const size_t colon = setup.address.rfind(':');
    context_ = redisConnect(setup.address.substr(0, colon).c_str(), std::atoi(setup.address.c_str() + colon + 1));
    if (context_ == nullptr || context_->err != 0) Die("cannot connect to Redis");
    context_->reader->maxbuf = 0;  // else hiredis frees its buffer after each answer of more than 16 KiB
    for (const auto& ids : batches) {
      std::vector<std::string> words = {"MGET"};
      for (const int64_t id : ids) words.push_back(std::to_string(id));
      std::vector<const char*> arguments;
      std::vector<size_t> sizes;
      for (const std::string& word : words) {
        arguments.push_back(word.data());
        sizes.push_back(word.size());
      }
      char* command = nullptr;
      const auto size =
          redisFormatCommandArgv(&command, static_cast<int>(words.size()), arguments.data(), sizes.data());
      if (size <= 0) Die("cannot format a command");
      requests_.emplace_back(command, static_cast<size_t>(size));
      redisFreeCommand(command);
    }
  }

  ~RedisConnection() override { redisFree(context_); }

  // Writes every row, once for all connections.
  void FillTable(int64_t num_rows) {
    std::vector<float> row(static_cast<size_t>(dim_));
    constexpr int64_t kAtOnce = 500;
    for (int64_t first = 0; first < num_rows; first += kAtOnce) {
      const int64_t end = std::min(num_rows, first + kAtOnce);
      for (int64_t id = first; id < end; ++id) {
        FillRow(id, dim_, row.data());
        redisAppendCommand(context_, "SET %lld %b", static_cast<long long>(id), row.data(), row.size() * sizeof(float));
      }
      for (int64_t id = first; id < end; ++id) freeReplyObject(Reply());
    }
  }

  std::vector<float> FetchRows() override {
    Send();
    redisReply* reply = Reply();
    next_ = 0;
    std::string bytes;
    for (size_t i = 0; i < reply->elements; ++i) {
      if (reply->element[i]->type != REDIS_REPLY_STRING) Die("a row is missing");
      bytes.append(reply->element[i]->str, reply->element[i]->len);
    }
    freeReplyObject(reply);
    return FloatsOf(bytes);
  }

  // hiredis copies each value once into its reply, whatever the window asks for.
  void Run(Window& window) override {
    for (int i = 0; i < outstanding_; ++i) Send();
    int running = outstanding_;
    while (running > 0) {
      freeReplyObject(Reply());
      if (Clock::now() < window.end) {
        ++window.calls;
        Send();
      } else {
        --running;
      }
    }
  }

 private:
  void Send() {
    const std::string& request = requests_[next_++ % requests_.size()];
    if (redisAppendFormattedCommand(context_, request.data(), request.size()) != REDIS_OK) Die("cannot send");
    // As soon as it is made, as the other clients do.
    int done = 0;
    while (done == 0) {
      if (redisBufferWrite(context_, &done) != REDIS_OK) Die("cannot send");
    }
  }

  redisReply* Reply() {
    // redisGetReply would read 16 KiB at a time: 12 system calls for one answer of 64 x 768.
    void* reply = nullptr;
    for (;;) {
      int done = 0;
      while (done == 0) {
        if (redisBufferWrite(context_, &done) != REDIS_OK) Die("cannot send");
      }
      if (redisReaderGetReply(context_->reader, &reply) != REDIS_OK) Die("no reply from Redis");
      if (reply != nullptr) break;
      const ssize_t size = recv(context_->fd, received_.data(), received_.size(), 0);
      if (size <= 0) Die("Redis has gone");
      if (redisReaderFeed(context_->reader, received_.data(), static_cast<size_t>(size)) != REDIS_OK) Die("no memory");
    }
    auto* given = static_cast<redisReply*>(reply);
    if (given->type == REDIS_REPLY_ERROR) Die(std::string("Redis says ") + given->str);
    return given;
  }

  const int64_t dim_;
  const int outstanding_;
  redisContext* context_ = nullptr;
  std::vector<char> received_ = std::vector<char>(size_t{256} << 10);
  std::vector<std::string> requests_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Connection> ConnectToRedis(const Setup& setup, const Batches& batches, int outstanding,
                                           bool fill_table) {
  auto connection = std::make_unique<RedisConnection>(setup, batches, outstanding);
  if (fill_table) connection->FillTable(setup.num_rows);
  return connection;
}

}  // namespace embedding::bench
