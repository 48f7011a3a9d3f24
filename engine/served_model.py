"""The model as the API sees it: a name, a context length, and how a chat call becomes a job."""

from dataclasses import dataclass, replace

from engine.chat_template import ChatTemplate
from engine.errors import RequestError
from engine.protocol.chat_request import ChatCall
from engine.sampling import PLAIN_SAMPLING, SamplingDefaults
from engine.scheduler import context_overflow
from engine.tokenizer import Tokenizer
from engine.worker import Job


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What turns a checked call into tokens.

    Attributes:
        max_context: most prompt and answer tokens one sequence may have here.
        default_max_tokens: bound on the answer when the client names none.
        created: seconds since the epoch, shown in the model list.
        sampling: for requests that say nothing about it.
    """

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    max_context: int
    default_max_tokens: int
    created: int
    sampling: SamplingDefaults = PLAIN_SAMPLING

    def job(self, call: ChatCall) -> Job:
        """Render, tokenise and bound a call. Takes milliseconds for long prompts: not on the event loop.

        Raises:
            RequestError: the template refuses the messages, or the prompt leaves no room for an answer.
        """
        if self.template is None:
            raise RequestError(400, f"The model {self.name!r} has no chat template.", param="messages")
        vocabulary = self.tokenizer.vocab_size
        if any(token_id >= vocabulary for token_id, _ in call.params.logit_bias):
            raise RequestError(400, "'logit_bias' names a token outside the vocabulary.", param="logit_bias")
        text = self.template.render(call.messages)
        if len(text) > self.max_context * self.tokenizer.longest_piece():
            # Not worth seconds of tokenising: so much text cannot fit, however well it packs.
            raise context_overflow(
                len(text) // self.tokenizer.longest_piece(), call.params.max_tokens, self.max_context
            )
        prompt_ids = tuple(self.tokenizer.encode(text))
        room = self.max_context - len(prompt_ids)
        wanted = call.params.max_tokens or min(self.default_max_tokens, max(1, room))
        if wanted > room:
            raise context_overflow(len(prompt_ids), wanted, self.max_context)
        return Job(prompt_ids, replace(call.params, max_tokens=wanted), call.n)
