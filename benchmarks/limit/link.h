/* What publisher and consumer share: a connection with one channel on loopback, clocks, and an end with a reason. */

#ifndef LINK_H
#define LINK_H

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_tcp_socket.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#define CHANNEL 1

static void end_with(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void must(int status, const char *what) {
    if (status < 0) end_with(what, amqp_error_string2(status));
}

static void must_reply(amqp_connection_state_t link, const char *what) {
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(link);
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) end_with(what, amqp_error_string2(reply.library_error));
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) end_with(what, "the broker refuses");
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static amqp_connection_state_t open_link(int port) {
    amqp_connection_state_t link = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(link);
    if (socket == NULL) end_with("socket", "out of memory");
    must(amqp_socket_open(socket, "127.0.0.1", port), "connect");
    amqp_rpc_reply_t reply = amqp_login(link, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) end_with("login", "the broker refuses");
    amqp_channel_open(link, CHANNEL);
    must_reply(link, "channel");
    return link;
}

#endif
