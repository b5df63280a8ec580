#include "proto/status_codec.h"
