// Looks up two rows. Without a server at the address given: says so and ends with 78, as the command line client does.
#include <embedding/client/embedding_client.h>

#include <iostream>

int main(int argc, char** argv) {
  embedding::ClientOptions options;
  options.address = argc > 1 ? argv[1] : "127.0.0.1:50051";
  options.deadline = std::chrono::seconds(2);
  const auto client = embedding::EmbeddingClient::Create(options);
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return 2;
  }
  const auto rows = (*client)->Lookup({.table = {}, .rows = embedding::client::Ids{{0, 1}, {}}});
  if (!rows.ok()) {
    std::cerr << rows.status().message() << "\n";
    return 64 + static_cast<int>(rows.status().code());
  }
  std::cout << rows->embeddings.shape[0] << " rows of " << rows->embeddings.shape[1] << " numbers, the first "
            << rows->embeddings.ToFloats()[0] << "\n";
  return 0;
}
