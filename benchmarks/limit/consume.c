/* Consumes from a queue and acknowledges each message by itself, with at most PREFETCH outstanding.
 *
 *     consume PORT QUEUE MESSAGES PREFETCH
 *
 * Prints one JSON object: seconds from the first message until all are acknowledged, us (processor time a message). */

#include "link.h"

int main(int argc, char **argv) {
    if (argc != 5) end_with("usage", "consume PORT QUEUE MESSAGES PREFETCH");
    uint64_t messages = strtoull(argv[3], NULL, 10);
    amqp_connection_state_t link = open_link(atoi(argv[1]));
    amqp_basic_qos(link, CHANNEL, 0, (uint16_t)atoi(argv[4]), 0);
    must_reply(link, "qos");
    amqp_basic_consume(link, CHANNEL, amqp_cstring_bytes(argv[2]), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    must_reply(link, "consume");
    double begun = now(), cpu = cpu_seconds();
    for (uint64_t taken = 0; taken < messages; taken++) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(link);
        amqp_rpc_reply_t reply = amqp_consume_message(link, &envelope, NULL, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) end_with("consume", "the broker sent something else");
        if (taken == 0) begun = now(), cpu = cpu_seconds();
        must(amqp_basic_ack(link, CHANNEL, envelope.delivery_tag, 0), "ack");
        amqp_destroy_envelope(&envelope);
    }
    amqp_channel_close(link, CHANNEL, AMQP_REPLY_SUCCESS); /* answered when every acknowledgement has been taken */
    double seconds = now() - begun;
    printf("{\"seconds\": %.6f, \"us\": %.3f, \"latencies_us\": []}\n", seconds, (cpu_seconds() - cpu) / messages * 1e6);
    amqp_connection_close(link, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(link);
    return 0;
}
