/*
 * Certificates for tests of mutual TLS between processes, valid for a hundred years and of no use
 * elsewhere: an authority, a node of it, and a stranger of another authority.
 */
#ifndef TESTS_LIB_RPC_CERTIFICATES_H
#define TESTS_LIB_RPC_CERTIFICATES_H

static const char test_authority_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBhTCCASugAwIBAgIUPBfqasZsIc/BmYILs4zuB2C7g/MwCgYIKoZIzj0EAwIw\n"
    "FzEVMBMGA1UEAwwMa2lzdCB0ZXN0IGNhMCAXDTI2MTEzMDE3Mjc0OVoYDzIxMjYx\n"
    "MTA2MTcyNzQ5WjAXMRUwEwYDVQQDDAxraXN0IHRlc3QgY2EwWTATBgcqhkjOPQIB\n"
    "BggqhkjOPQMBBwNCAAToc2ZD7wfss+e5Y964qNqM79BhdJD3pgdf0oQ6NvjVKe26\n"
    "P+CUKju2Ru+4+vuEWSnbOW5VyD5ItpvFXB0eXXP6o1MwUTAdBgNVHQ4EFgQUgTcK\n"
    "tXYIKeAZFrqeo8Z5OujZePAwHwYDVR0jBBgwFoAUgTcKtXYIKeAZFrqeo8Z5OujZ\n"
    "ePAwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBRQg1U9JfAIrxP\n"
    "ctjth/a3lNaK8bpbRIAnWVdPjL3FfQIhANaBvpNMgHAbqc4fHHmg3kIkWmblYQax\n"
    "Oi6zC6QMy0pY\n"
    "-----END CERTIFICATE-----\n";

static const char test_node_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBLDCB0wIULJ4+v5+raDt35OGt9v/+S79/CicwCgYIKoZIzj0EAwIwFzEVMBMG\n"
    "A1UEAwwMa2lzdCB0ZXN0IGNhMCAXDTI2MTEzMDE3Mjc1MFoYDzIxMjYxMTA2MTcy\n"
    "NzUwWjAZMRcwFQYDVQQDDA5raXN0IHRlc3Qgbm9kZTBZMBMGByqGSM49AgEGCCqG\n"
    "SM49AwEHA0IABIzwQDN/aUOmcI2wFo14Ty57Udfdji0A4qDH8+5vVhL0BXvHvYFf\n"
    "0nLeEpFePgymzertyS3g5zApP+kkHNpAppswCgYIKoZIzj0EAwIDSAAwRQIgEb1/\n"
    "57+2SENy0DibrT3hNFMhasSdcASgdSFWienq0bACIQCRm352ykIxZVMx6XE3SiAo\n"
    "zVaunzkkOThQNYdBnIqi1A==\n"
    "-----END CERTIFICATE-----\n";

static const char test_node_key_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjPqVfI82Ngm49LaJ\n"
    "pkhjQAGEVGnEFBwZUQQhvA++/eChRANCAASM8EAzf2lDpnCNsBaNeE8ue1HX3Y4t\n"
    "AOKgx/Pub1YS9AV7x72BX9Jy3hKRXj4Mps3q7ckt4OcwKT/pJBzaQKab\n"
    "-----END PRIVATE KEY-----\n";

static const char test_stranger_pem[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBMzCB2gIUSVxSwNIWYwU+7ycJvO1oS4H73zEwCgYIKoZIzj0EAwIwGjEYMBYG\n"
    "A1UEAwwPa2lzdCB0ZXN0IG90aGVyMCAXDTI2MTEzMDE3Mjc1MFoYDzIxMjYxMTA2\n"
    "MTcyNzUwWjAdMRswGQYDVQQDDBJraXN0IHRlc3Qgc3RyYW5nZXIwWTATBgcqhkjO\n"
    "PQIBBggqhkjOPQMBBwNCAAQk8tHaUSq6ULjDNCH7ePhxH4uu0TUrhWl+NgctS8KQ\n"
    "kXsnDj+Q+o7bk3u4XrLFk6LmzAPNBbpuJSSsiI6QtgrvMAoGCCqGSM49BAMCA0gA\n"
    "MEUCIQCNvNntpisutUokZDeJUi6g+EbV/FfMWtbpq6Gi1HN84QIgCtVH6flZryvp\n"
    "3UfJtiI0syNvVJpX2felKJy3XMIFRwM=\n"
    "-----END CERTIFICATE-----\n";

static const char test_stranger_key_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIobuGjkqme+3FQdI\n"
    "XxvSCjThnpOYbCyCrTnc5dONuhihRANCAAQk8tHaUSq6ULjDNCH7ePhxH4uu0TUr\n"
    "hWl+NgctS8KQkXsnDj+Q+o7bk3u4XrLFk6LmzAPNBbpuJSSsiI6Qtgrv\n"
    "-----END PRIVATE KEY-----\n";

#endif
