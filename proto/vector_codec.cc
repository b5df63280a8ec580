#include "proto/vector_codec.h"
