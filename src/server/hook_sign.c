/* SPDX-License-Identifier: MIT */
/*
 * hook_sign.c: who sent a delivery, proved by a shared secret.
 *
 *   GitHub  X-Hub-Signature-256: sha256=<hex of HMAC-SHA256(secret, body)>
 *   Slack   X-Slack-Signature: v0=<hex of HMAC-SHA256(secret, "v0:" timestamp ":" body)>
 *           X-Slack-Request-Timestamp: seconds since 1970, at most five minutes from now, so that
 *           what somebody has overheard cannot be sent again later
 *
 * The body is taken exactly as it came. Signatures are compared in constant time: how much of a
 * guess was right cannot be measured.
 */
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "hook.h"

#include "base/str.h"

#define DIGEST_BYTES 32

static bool digest(EVP_MAC_CTX *ctx, const char *secret, const char *head, size_t head_bytes,
                   const char *body, size_t body_bytes, unsigned char out[DIGEST_BYTES])
{
    char name[] = "SHA256";
    const OSSL_PARAM how[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    size_t count = 0;
    return ctx != NULL &&
           EVP_MAC_init(ctx, (const unsigned char *)secret, strlen(secret), how) == 1 &&
           EVP_MAC_update(ctx, (const unsigned char *)head, head_bytes) == 1 &&
           EVP_MAC_update(ctx, (const unsigned char *)body, body_bytes) == 1 &&
           EVP_MAC_final(ctx, out, &count, DIGEST_BYTES) == 1 && count == DIGEST_BYTES;
}

bool hook_hmac(const char *secret, const char *head, size_t head_bytes, const char *body,
               size_t body_bytes, char out[HOOK_HEX_BYTES])
{
    unsigned char bytes[DIGEST_BYTES];
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;
    bool made = digest(ctx, secret, head, head_bytes, body, body_bytes, bytes);
    for (size_t i = 0; made && i < DIGEST_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return made;
}

/* is_same: prefix and hex, nothing before or behind. */
static bool is_same(const char *signature, const char *prefix, const char hex[HOOK_HEX_BYTES])
{
    size_t length = strlen(prefix);
    return str_starts(signature, prefix) && strlen(signature) == length + HOOK_HEX_BYTES - 1 &&
           CRYPTO_memcmp(signature + length, hex, HOOK_HEX_BYTES - 1) == 0;
}

static dibs_status no_memory(struct dibs_error *err)
{
    return error_set(err, DIBS_OUT_OF_MEMORY, "cannot check the signature: out of memory");
}

dibs_status hook_slack_verify(const char *secret, const char *timestamp, const char *signature,
                              struct hook_body body, int64_t now_s, struct dibs_error *err)
{
    char hex[HOOK_HEX_BYTES] = "", head[64];
    int64_t sent_s = 0;
    if (timestamp == NULL || signature == NULL)
        return error_set(err, DIBS_UNAUTHORIZED,
                         "the request has no X-Slack-Request-Timestamp and X-Slack-Signature");
    if (strlen(timestamp) > 20 || !str_to_int(timestamp, &sent_s) || sent_s < 0)
        return error_set(err, DIBS_UNAUTHORIZED,
                         "X-Slack-Request-Timestamp is not a time in seconds");
    if (now_s - sent_s > HOOK_WINDOW_S || sent_s - now_s > HOOK_WINDOW_S)
        return error_set(err, DIBS_UNAUTHORIZED,
                         "the request was signed more than %d seconds before or after the time of "
                         "this machine",
                         HOOK_WINDOW_S);
    int head_bytes = snprintf(head, sizeof head, "v0:%s:", timestamp);
    if (!hook_hmac(secret, head, (size_t)head_bytes, body.bytes, body.count, hex))
        return no_memory(err);
    if (!is_same(signature, "v0=", hex))
        return error_set(err, DIBS_UNAUTHORIZED,
                         "the signature is not right; see that slackSigningSecret is that of the "
                         "app");
    return DIBS_OK;
}

dibs_status hook_github_verify(const char *secret, const char *signature, struct hook_body body,
                               struct dibs_error *err)
{
    char hex[HOOK_HEX_BYTES] = "";
    if (signature == NULL)
        return error_set(err, DIBS_UNAUTHORIZED,
                         "the request has no X-Hub-Signature-256; give the webhook a secret");
    if (!hook_hmac(secret, "", 0, body.bytes, body.count, hex))
        return no_memory(err);
    if (!is_same(signature, "sha256=", hex))
        return error_set(err, DIBS_UNAUTHORIZED,
                         "the signature is not right; see that githubSecret is that of the "
                         "webhook");
    return DIBS_OK;
}
